# Four of INMET's own yearly files, and a place without a station.
cp -r "$SHARED/inmet_raw_sample" raw
printf 'lat,lon,alt,name\n-29.9,-52.5,60,farm\n' > farm.csv
