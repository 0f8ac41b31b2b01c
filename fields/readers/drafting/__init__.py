"""Draft a column map from the head of a table: names (`names`), units (`units`), times (`times`), places (`places`)."""
