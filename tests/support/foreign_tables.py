"""Write a small network as the tables of services all over the world write theirs, by hand and with their oddities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reader_files import Weather

__all__ = ["TABLES", "Foreign"]

_POINTS = ["N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """How one service writes: lines above the rows, one row, what else; ``listed`` writes a list of stations."""

    header: str
    row: Callable[[Weather, int, int], str]
    listed: str = ""
    listed_row: str = ""
    encoding: str = "utf-8"
    ids: Callable[[int], str] = "S{:03d}".format
    has_psl: bool = False

    def write(self, folder: Path, weather: Weather) -> tuple[Path, Path | None]:
        """Write the table and, where the service keeps one, the list of its stations."""
        rows = [self.row(weather, t, s) for t in range(len(weather.time)) for s in range(len(weather.ids))]
        path = folder / "obs.csv"
        path.write_bytes("\n".join([self.header, *rows, ""]).encode(self.encoding))
        if not self.listed:
            return path, None
        places = [self.listed_row.format(id=self.ids(s), lat=weather.lat[s], lon=weather.lon[s], alt=weather.alt[s],
                                         name=f"Place {s}") for s in range(len(weather.ids))]  # fmt: skip
        (folder / "stations.csv").write_bytes("\n".join([self.listed, *places, ""]).encode(self.encoding))
        return path, folder / "stations.csv"


def when(weather: Weather, t: int, form: str) -> str:
    moment = weather.time[t].astype(object)
    return moment.strftime(form).format(y=moment.year, m=moment.month, d=moment.day, h=moment.hour)


def speed(w: Weather, t: int, s: int) -> float:
    return float(np.hypot(w.u[t, s], w.v[t, s]))


def direction(w: Weather, t: int, s: int) -> float:
    return float(np.rad2deg(np.arctan2(-w.u[t, s], -w.v[t, s])) % 360)


def dew(w: Weather, t: int, s: int) -> float:
    x = np.log(w.rh[t, s] / 100) + 17.625 * w.t[t, s] / (243.04 + w.t[t, s])
    return float(243.04 * x / (17.625 - x))


def sea(w: Weather, t: int, s: int) -> float:
    return float(w.p[t, s] * np.exp(w.alt[s] / 8000))


def comma(number: float, digits: int = 1) -> str:
    return f"{number:.{digits}f}".replace(".", ",")


def prsa(w: Weather, t: int, s: int) -> str:
    day = when(w, t, "{y},{m},{d},{h}")
    point = _POINTS[round(direction(w, t, s) / 22.5) % 16]
    values = f"{w.t[t, s]:.1f},{w.p[t, s]:.1f},{dew(w, t, s):.1f}"
    return f"{t + 1},{day},31,NA,{values},0,{point},{speed(w, t, s):.1f},S{s:03d}"


def synop(w: Weather, t: int, s: int) -> str:
    return (f"{7000 + s:05d};{when(w, t, '%Y%m%d%H%M%S')};{sea(w, t, s) * 100:.0f};-40;6;{direction(w, t, s):.0f};"
            f"{speed(w, t, s):.6f};{w.t[t, s] + 273.15:.6f};{dew(w, t, s) + 273.15:.6f};{w.rh[t, s]:.0f};mq;"
            f"{w.p[t, s] * 100:.0f};mq;")  # fmt: skip


def asos(w: Weather, t: int, s: int) -> str:
    calm = speed(w, t, s) < 0.3
    return (f"S{s:03d},{when(w, t, '%Y-%m-%d %H:%M')},{w.lon[s]:.4f},{w.lat[s]:.4f},{w.alt[s]:.4f},"
            f"{w.t[t, s] * 1.8 + 32:.2f},{dew(w, t, s) * 1.8 + 32:.2f},{w.rh[t, s]:.2f},"
            f"{'M' if calm else f'{direction(w, t, s):.2f}'},{speed(w, t, s) / 0.514444:.2f},T,29.92,M,M")  # fmt: skip


def isd(w: Weather, t: int, s: int) -> str:
    return (f'"7202{s:02d}12896","{when(w, t, "%Y-%m-%dT%H:%M:%S")}","4",'
            f'"{w.lat[s]:.4f}","{w.lon[s]:.4f}","{w.alt[s]:.1f}",'
            f'"PLACE {s}, FL US","FM-15","99999","V020","{round(direction(w, t, s)) % 360:03d},1,N,'
            f'{round(speed(w, t, s) * 10):04d},1","{round(w.t[t, s] * 10):+05d},1","{round(dew(w, t, s) * 10):+05d},1",'
            f'"{round(sea(w, t, s) * 10):05d},1"')  # fmt: skip


def dwd(w: Weather, t: int, s: int) -> str:
    return f"{44 + s:11d};{when(w, t, '%Y%m%d%H')};    3; {w.t[t, s]:6.1f};{-999 if t == 3 else w.rh[t, s]:6.1f};eor"


def aemet(w: Weather, t: int, s: int) -> str:
    return (f"S{s:03d};{when(w, t, '%d/%m/%Y')};{when(w, t, '%H:%M')};{comma(w.lat[s], 4)};{comma(w.lon[s], 4)};"
            f"{comma(w.alt[s])};{comma(w.t[t, s])};{comma(w.t[t, s] + 2)};{comma(w.rh[t, s])};{comma(w.p[t, s])};"
            f"{comma(speed(w, t, s) * 3.6, 2)};{comma(direction(w, t, s))}")  # fmt: skip


def geosphere(w: Weather, t: int, s: int) -> str:
    return (f"S{s:03d},{when(w, t, '%Y-%m-%dT%H:%M')}+00:00,{direction(w, t, s):.0f},{speed(w, t, s):.2f},"
            f"{w.p[t, s]:.1f},"
            f"{w.rh[t, s]:.0f},{w.t[t, s]:.1f}")  # fmt: skip


def brazil(w: Weather, t: int, s: int) -> str:
    return (f"{when(w, t, '%d/%m/%Y')};{when(w, t, '%H%M')};S{s:03d};{comma(w.t[t, s])};{comma(w.rh[t, s], 0)};"
            f"{comma(w.p[t, s])};{comma(speed(w, t, s), 2)};{comma(direction(w, t, s), 0)};6,1")  # fmt: skip


TABLES = {
    "prsa": Foreign("No,year,month,day,hour,PM2.5,SO2,TEMP,PRES,DEWP,RAIN,wd,WSPM,station", prsa,
                    "station,lat,lon,alt", "{id},{lat},{lon},{alt}"),
    "synop": Foreign("numer_sta;date;pmer;tend;cod_tend;dd;ff;t;td;u;vv;pres;niv_bar;", synop,
                     "ID;Nom;Latitude;Longitude;Altitude", "{id};{name};{lat};{lon};{alt}",
                     ids=lambda s: f"{7000 + s:05d}", has_psl=True),
    "asos": Foreign("#DEBUG: Format Typ    -> comma\n#DEBUG: Time Zone     -> UTC\n"
                    "station,valid,lon,lat,elevation,tmpf,dwpf,relh,drct,sknt,p01i,alti,mslp,gust", asos),
    "isd": Foreign('"STATION","DATE","SOURCE","LATITUDE","LONGITUDE","ELEVATION","NAME","REPORT_TYPE","CALL_SIGN",'
                   '"QUALITY_CONTROL","WND","TMP","DEW","SLP"', isd, ids=lambda s: f"7202{s:02d}12896", has_psl=True),
    "dwd": Foreign("STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor", dwd,
                   "Stations_id;Stationshoehe;geoBreite;geoLaenge;Stationsname", "{id};{alt};{lat};{lon};{name}",
                   ids=lambda s: str(44 + s)),
    "aemet": Foreign("Estación;Fecha;Hora (UTC);Latitud;Longitud;Altitud (m);Temperatura (ºC);Temperatura máxima (ºC);"
                     "Humedad relativa (%);Presión (hPa);Velocidad del viento (km/h);Dirección del viento (°)", aemet,
                     encoding="latin-1"),
    "geosphere": Foreign("station,time,DD,FF,P,RF,TL", geosphere,
                         "id,Länge,Breite,Höhe,Name", "{id},{lon},{lat},{alt},{name}"),
    "brazil": Foreign("Data Medicao;Hora Medicao (UTC);CD_ESTACAO;TEMPERATURA DO AR (°C);UMIDADE RELATIVA (%);"
                      "PRESSAO ATMOSFERICA (hPa);VENTO VELOCIDADE (m/s);VENTO DIRECAO (graus);VENTO RAJADA (m/s)",
                      brazil,
                      "CD_ESTACAO;DC_NOME;VL_LATITUDE;VL_LONGITUDE;VL_ALTITUDE", "{id};{name};{lat};{lon};{alt}"),
}  # fmt: skip
