# Other real stations in the layouts of the two datasets.
ln -s "$SHARED/weather2k_layout/inmet_south_2023_2024_3h.npy" weather2k.npy
ln -s "$SHARED/meteonet_layout" NW
