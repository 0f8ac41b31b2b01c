"""One HTML page about a run, that needs neither a server nor a network."""

from stationpde.report.page import check_page as check_page
from stationpde.report.page import page as page
from stationpde.report.page import write_page as write_page
from stationpde.report.view import RunView as RunView
from stationpde.report.view import look as look
