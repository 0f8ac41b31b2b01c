"""Recognise what a column is called: English, French, German, Portuguese, Spanish, and the abbreviations of services.

A name is taken apart into words without accents and capitals, and its unit in brackets is put aside. A name of one
meaning (``WHOLE``) decides at once; otherwise the words must hold those of a pattern (``WORDS``). Words such as maximum
or gust say that it is something else (``OTHER``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Name", "is_called", "meanings", "named", "rank_of"]

_BRACKETS = re.compile(r"[\[({<]([^\])}>]*)[\])}>]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Name:
    """Name of a column: its words, joined, and what stands in brackets behind it."""

    words: tuple[str, ...]
    bracket: str

    @property
    def joined(self) -> str:
        """Words joined by underscores."""
        return "_".join(self.words)


def named(text: str) -> Name:
    """Take the name of a column apart."""
    bracket = " ".join(_BRACKETS.findall(text)).strip()
    bare = _CAMEL.sub(" ", _BRACKETS.sub(" ", text))
    plain = unicodedata.normalize("NFKD", bare).replace("ß", "ss")
    letters = "".join(c for c in plain if not unicodedata.combining(c)).lower()
    return Name(tuple(re.findall(r"[a-z0-9]+(?:\.[0-9]+)?", letters)), bracket)


def rank_of(name: Name, words: Sequence[str]) -> int:
    """Return the place of a name in a list, whether its words are joined or not; -1 where it is not in it."""
    plain = "".join(name.words)
    return next((i for i, word in enumerate(words) if word.replace("_", "") == plain), -1)


def is_called(name: Name, words: frozenset[str]) -> bool:
    """Return whether a name is one of several, whether its words are joined or not."""
    return name.joined in words or "".join(name.words) in _plain(words)


@lru_cache(maxsize=64)
def _plain(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word.replace("_", "") for word in words)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WHOLE = {
    "t": _set(
        "air_temp air_temperature airtemp dry_bulb drybulb lufttemperatur t t2 t2m t_air t_c ta ta_c tair tas "
        "tem temp temp_air temp_ar temp_c temp_f temp_ins temp_out tempc temperatur temperatura temperature "
        "temperature_air temperature_c temperature_f tempf tempo_c tk tl tmp tmpc tmpf tre200s0 tt tt_10 tt_tu "
        "ttt"
    ),
    "td": _set(
        "d2m dew dew_point dew_point_temperature dewp dewpc dewpf dewpoint dewpt dpt dwpc dwpf orvalho "
        "point_de_rosee ponto_de_orvalho pto_ins punto_de_rocio rocio rosee t_dew tau taupunkt "
        "taupunkttemperatur td td_10 tdew tdp"
    ),
    "rh": _set(
        "feuchte hr hu hum humedad humedad_relativa humi humid humidite humidite_relative humidity hurs "
        "luftfeuchte luftfeuchtigkeit r_h rel_feuchte rel_hum relative_feuchte relative_humidity "
        "relative_luftfeuchte relh relhum rf rf_10 rf_tu rh rh2m umd_ins umi umidade umidade_relativa ur ure"
    ),
    "p": _set(
        "air_pressure baro barometer druck luftdruck p p0 p_station po pp_10 pr pre_ins pres presion "
        "presion_estacion press pressao pressao_estacao pression pression_station pressure prestas0 ps pstn qfe "
        "sfc_pressure sp station_pressure stationsdruck stnp stp surface_air_pressure surface_pressure"
    ),
    "psl": _set(
        "mean_sea_level_pressure meeresniveau msl mslp niveau_mer p_msl p_sea pmer pmsl pnm pp0qffs0 "
        "presion_mar presion_nivel_del_mar pressao_mar pressao_nivel_mar pression_mer pressure_msl prmsl psl "
        "qff sea_level_pressure sealevelpressure slp"
    ),
    "ff": _set(
        "ff ff10 ff_10 ff_mean fk force_vent fu3010z0 sfcwind sknt spd sped speed vel_viento velmedia "
        "velocidad_del_viento velocidad_viento velocidade_do_vento velocidade_vento velviento ven_vel "
        "vento_velocidade vitesse_du_vent vitesse_vent wind_kmh wind_kt wind_mph wind_ms wind_spd wind_speed "
        "wind_velocity windgeschwindigkeit windspd windspeed windstaerke ws ws10 wsp wspd wspm wv"
    ),
    "dd": _set(
        "dd dd10 dd_10 dir direcao_do_vento direcao_vento direccion_del_viento direccion_viento direction "
        "direction_du_vent direction_vent dkl010z0 drct rumbo ven_dir vento_direcao wd wd10 wdir wind_deg "
        "wind_dir wind_direction wind_from_direction winddeg winddir winddirection windrichtung wr"
    ),
    "u": _set("eastward_wind u10 u_component u_ms u_wind uas ugrd uwnd wind_u zonal_wind"),
    "v": _set("meridional_wind northward_wind v10 v_component v_ms v_wind vas vgrd vwnd wind_v"),
    "precip": _set(
        "chuva chuva_1h lluvia niederschlag niederschlagshoehe p01i p01m pcp pluie prcp prec prec_1h precip "
        "precip_1h precipitacao precipitacao_total precipitacao_total_horario precipitacion precipitation r1 rain "
        "rain_1h rainfall rr rr1 rr_10 rre150h0"
    ),
    "gust": _set(
        "boe boen fg10 fx fx_10 gspd gust gust_speed gusts max_gust peak_gust peak_wind_gust racha racha_maxima "
        "racha_max raf10 rafaga rafaga_maxima rafale rafale_max raj_max rajada rajada_maxima spitzenboe ven_raj "
        "vento_rajada_maxima wgust wind_gust wind_gust_speed wind_gusts wind_speed_of_gust windboe windgust windspitze"
    ),
    "radiation": _set(
        "ghi glo global_radiation globalstrahlung gre000z0 gs_10 rad_glo radiacao radiacao_global radiacion "
        "radiacion_global radiation rayonnement rayonnement_global rglobal rsds shortwave_radiation solar_radiation "
        "strahlung surface_downwelling_shortwave_flux_in_air swdown"
    ),
    "cloud": _set(
        "bewolkung bewoelkung cloud cloud_area_fraction cloud_cover cloudcover cloudiness clt nebulosidade nebulosite "
        "nebulosity nubosidad tcc total_cloud_cover"
    ),
    "visibility": _set(
        "horizontal_visibility sichtweite vis visibilidad visibilidade visibilite visibility visibility_in_air vsby vv"
    ),
    "snow": _set("hauteur_neige ht_neige profundidad_nieve schneehohe schneehoehe sh_10 snow snow_depth snowdepth"),
    "sunshine": _set(
        "duration_of_sunshine insolacao insolacion insolation sd_10 sonnenscheindauer sre000z0 sunshine "
        "sunshine_duration sunshine_minutes"
    ),
}
# Each pattern: beginnings of words that must all occur. Tried in this order, the more particular first.
WORDS: tuple[tuple[str, str], ...] = (
    ("td", "dew"), ("td", "orvalho"), ("td", "rosee"), ("td", "rocio"), ("td", "taupunkt"),
    ("psl", "press sea"), ("psl", "press mer"), ("psl", "press mar"), ("psl", "pres mar"), ("psl", "druck meer"),
    ("psl", "press msl"), ("psl", "druck nn"),
    ("rh", "humid"), ("rh", "umid"), ("rh", "humed"), ("rh", "feucht"),
    ("dd", "dire"), ("dd", "windrichtung"), ("dd", "wind dir"), ("dd", "richtung"),
    ("ff", "wind speed"), ("ff", "vent vitesse"), ("ff", "vento veloc"), ("ff", "viento veloc"), ("ff", "wind geschw"),
    ("ff", "windgeschw"), ("ff", "wind spd"), ("ff", "windspeed"), ("ff", "vent force"),
    ("p", "press"), ("p", "presion"), ("p", "luftdruck"),
    ("t", "temp"), ("t", "lufttemp"),
    ("precip", "precip"), ("precip", "niederschlag"), ("precip", "chuva"), ("precip", "lluvia"), ("precip", "pluie"),
    ("precip", "rainfall"),
    ("radiation", "global radia"), ("radiation", "globalstrahl"), ("radiation", "radia solar"),
    ("radiation", "rayonn glob"), ("cloud", "cloud cover"), ("visibility", "visib"), ("visibility", "sichtweite"),
    ("snow", "snow depth"), ("snow", "schneehoehe"), ("snow", "schneehohe"), ("sunshine", "sunshine"),
    ("sunshine", "sonnenschein"),
)  # fmt: skip
# Words of another quantity: extremes, gusts, soil and water, derived temperatures, flags of quality.
OTHER = _set(
    "12h 24h 3h 6h agua anomaly apparent boden boen calidad change chill climatology cod code count "
    "eau erdboden error estimated feel feels feuchttemperatur flag flags grass ground heat humedo "
    "index max maxi maxima maximo maximum mean_max min mini minima minimo minimum obs_count pavement peak "
    "potential qc qn qualidade qualite quality road sea_surface sigma soil "
    "sol solo spitze std suelo tend tendance tendencia trend typ type umido var virtual wasser water wet"
)
# Gusts, unless the name is that of their direction or time.
GUSTS = _set("boe boeen gust gusts racha raf rafaga rafale raj rajada spitzenboe windboe")
_EXTREMES = _set("max maxi maxima maximo maximum peak spitze")
_NO_SPEED = ("dir", "richt", "rumbo", "hora", "hour", "time", "zeit", "heure")

# The surest name of each entry first.
STATION = {
    "id": _list(
        "station_id stationid stations_id stid station_code stn_id site_id num_sta numer_sta number_sta "
        "num_poste poste codigo_wmo codigo codigo_estacao cd_estacao station_no station_number stationnumber "
        "stnid usaf wmo wmo_id wmoid indicativo idema id_station station_nr stationsnummer "
        "stations_nr icao icao_id code_station station stn sta estacao estacion site id code name_id stat "
        "station_wmo wigos_id wsi"
    ),
    "name": _list(
        "station_name stationname stationsname name nom nome nombre nom_usuel dc_nome nom_station "
        "nombre_estacion nome_estacao site_name ubi city town ort lugar"
    ),
    "wigos": _list("wigos wigos_id wigosid wigos_station_identifier wigos_station_id wsi"),
    "lat": _list(
        "lat latitude latitud breite geobreite geogr_breite breitengrad vl_latitude latitude_deg lat_deg y_lat"
    ),
    "lon": _list(
        "lon lng long longitude longitud laenge lange geolaenge geolange geogr_laenge langengrad laengengrad "
        "vl_longitude longitude_deg lon_deg x_lon"
    ),
    "alt": _list(
        "alt altitude altitud altura elev elevation height height_sta hoehe hohe stationshoehe stationshohe "
        "alt_m elev_m elevation_m altitude_m seehoehe vl_altitude elevacion elevacao elev_ft alt_ft "
        "elevation_ft station_height z"
    ),
}


def meanings(name: Name) -> list[str]:
    """List the variables that a name may mean, the surest first; empty where it means none of them."""
    words = set(name.words)
    listed = [variable for variable, whole in WHOLE.items() if is_called(name, whole)]
    if words & GUSTS and not listed:
        is_other = words & (OTHER - _EXTREMES) or any(word.startswith(_NO_SPEED) for word in words)
        return [] if is_other else ["gust"]
    if words & OTHER and not listed:
        return []
    for variable, pattern in WORDS:
        parts = pattern.split()
        if variable not in listed and all(any(word.startswith(part) for word in name.words) for part in parts):
            listed.append(variable)
    return listed
