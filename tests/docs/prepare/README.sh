# Observations as an archive of arrays, and a place without a station.
python "$REPOSITORY/tests/docs/prepare/observations.py"
printf 'lat,lon,alt,name\n49.1,-123.2,10,harbour\n' > new.csv
