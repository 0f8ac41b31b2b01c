"""Names and command lines that the documentation showed before the modules moved into rooms: they must keep working."""

NAMES = """
fields.GridToStation fields.StationToGrid fields.card.data_card fields.crossval.cross_validate fields.errors
fields.gridspec.GridSpec fields.ingest.IngestOptions fields.ingest.ingest fields.lift.StationToGrid
fields.lift_methods.LiftSettings fields.lift_methods.StationLift fields.lift_store.lift_store
fields.normalize.Climatology fields.normalize.Statistics fields.open_store fields.quality.check fields.readers
fields.readers.ReadOptions fields.readers.Reader fields.readout.GridToStation fields.schema.validate
fields.series.StationSeries fields.store fields.store.open fields.store.verify fields.store.write
fields.terrain.Elevation fields.torch_data.Batch fields.torch_data.WindowDataset fields.windows.StationSeries
fields.windows.WindowSpec fields.windows.Windows pde_ops pde_ops.Closure pde_ops.Field pde_ops.Positive pde_ops.Static
pde_ops.backends.March pde_ops.elementwise pde_ops.elementwise.positive_part pde_ops.errors pde_ops.grid.Grid2D
pde_ops.integrators pde_ops.operator pde_ops.operator.Operator pde_ops.operator.operator pde_ops.operators
pde_ops.ops.advection pde_ops.ops.air pde_ops.ops.condensation pde_ops.ops.coriolis pde_ops.ops.drag
pde_ops.ops.friction pde_ops.ops.gradients pde_ops.ops.kinematics pde_ops.ops.laplacian pde_ops.ops.laplacians
pde_ops.ops.mixing pde_ops.ops.moisture pde_ops.ops.nudging pde_ops.ops.pressure pde_ops.ops.relaxation
pde_ops.ops.rotation pde_ops.ops.saturation_humidity pde_ops.ops.temperature pde_ops.ops.transport
pde_ops.ops.transport_flux pde_ops.ops.wind pde_ops.ops.wind.speed_of pde_ops.registry.Registry
pde_ops.stencils.around pde_ops.system.PDESystem pde_ops.tendency.Tendency pde_ops.testing
pde_ops.testing.check_operator pde_ops.thermo stationpde.StationPDE stationpde.api.Coefficient
stationpde.api.StationPDE stationpde.baselines stationpde.baselines.Baseline stationpde.baselines.leakage
stationpde.baselines.registry.Baseline stationpde.baselines.registry.Predictor stationpde.baselines.registry.baseline
stationpde.baselines.registry.baselines stationpde.config.Config stationpde.data.demo_series
stationpde.data.load_series stationpde.errors stationpde.evaluation stationpde.evaluation.benchmark.BenchmarkPlan
stationpde.evaluation.benchmark.run_benchmark stationpde.evaluation.evaluate.EvaluationRequest
stationpde.evaluation.evaluate.evaluate_run stationpde.evaluation.scoring.score stationpde.evaluation.significance
stationpde.evaluation.statistics.ErrorStatistics stationpde.fields stationpde.loading.load_run stationpde.plots
stationpde.plots.errors.draw_error_by_altitude stationpde.plots.errors.draw_error_by_lead
stationpde.plots.maps.draw_forecast_map stationpde.plots.parts.draw_parts stationpde.plots.physics.draw_physics
stationpde.plots.redistribution.draw_redistribution stationpde.plots.router.draw_router
stationpde.plots.series.draw_series stationpde.report stationpde.report.moment.Moment
stationpde.report.moment.moment_of stationpde.report.page.write_page stationpde.report.view.look
stationpde.training.dry_run.dry_run stationpde.training.learner.Learner stationpde.training.session.TrainOptions
stationpde.training.session.TrainResult stationpde.training.session.train
"""

# Typed: the words after `stationpde`, one line each.
TYPED = r"""
-q data ingest raw -o mine.zarr --map inmet --force
-q forecast '/srv/runs/w2k/seed-*' --obs /srv/obs.zarr --max-age 3h --force -o '/srv/out/{time}.nc'
-q forecast RUN --obs obs.zarr --max-age 1h -o fc.nc
-q forecast runs/mine --obs mine.zarr --max-age 3h -o 'out/{time}.nc'
ablate ../shared/data/inmet_south/observations.npz --seeds 0:3 --cells benchmarks/cells/ablation -o out/ablation
ablate obs.zarr --parts no_pde,no_data,no_station_head,no_obs_loss --seeds 0:3 -o out
ablate w2k.zarr --variant paper --recipe paper --seeds 0:5 -o table3/
benchmark nw.zarr --protocol meteonet-like --models all --recipe paper --seeds 0:5 --horizons 24,48,96 -o table2/
benchmark obs.zarr --models default,ridge_nb,blend --leave-out 5 -o out
benchmark obs.zarr --protocol w2k-like --models all --seeds 0:5 --jobs 2 -o out
benchmark w2k.zarr --protocol w2k-like --models all --recipe paper --seeds 0:5 -o table1/
data info mine.zarr --plot network.png
data ingest NW -o nw.zarr --missing p=standard-atmosphere
data ingest SRC -o OUT.zarr
data ingest obs.csv -o mine.zarr --unit p=Pa
data ingest observations.npz -o mine.zarr
data ingest raw -o mine.zarr --map inmet
data ingest raw_files/ -o mine.zarr --map inmet
data ingest table.csv -o mine.zarr --map my_columns.toml --unit p=hPa
data ingest weather2k.npy -o w2k.zarr
data synth mine.zarr --stations 24 --days 60
demo --out demo
doctor
field cv mine.zarr
field lift mine.zarr fields.zarr --method detrended
field lift mine.zarr fields.zarr --method detrended --dem relief.npz
field plot fields.zarr -o map.png
field plot fields.zarr -o map.png --variable t
field sample fields.zarr points.csv -o series.csv
forecast 'runs/w2k/seed-*' --obs mine.zarr -o fc.zarr
forecast runs/first --obs mine.zarr -o first.csv
forecast runs/mine --obs mine.zarr --stations farm.csv -o farm.nc
forecast runs/mine --obs mine.zarr --stations new.csv -o tomorrow.nc
forecast runs/mine --obs mine.zarr -o tomorrow.csv
forecast runs/w2k --obs mine.zarr --stations new.csv -o fc.parquet
forecast runs/w2k --obs mine.zarr -o tomorrow.nc
forecast runs/w2k --obs table.csv --map my_columns.toml --at 2024-07-05T12:00 -o fc.csv
ops check
ops list 'advection*'
ops show laplacian
plot map demo/run --obs demo/data.zarr --variable rh -o map.svg
plot map runs/mine --obs mine.zarr -o forecast.png
plot parts out/ablation/results.json -o docs/images/inmet_parts.png
plot physics demo/run -o physics.pdf
plot router demo/run --obs demo/data.zarr -o router.png --windows 16
plot router out/ablation/runs/RUN --obs ../shared/data/inmet_south/observations.npz -o docs/images/inmet_router.png
plot series demo/run --obs demo/data.zarr --station SY007 -o series.png
plot w-alt ../shared/data/inmet_south/observations.npz -o docs/images/inmet_w_alt.png --runs out/w_alt --set \
  model.guide_networks=0 --set train.epochs=1 --set train.max_steps=20 --set train.validate_windows=33 --windows \
  217
report demo/run --obs demo/data.zarr -o report.html
report runs/first --obs mine.zarr -o first.html --windows 8
report runs/mine --obs mine.zarr -o report.html --windows 4
report runs/mine --obs mine.zarr -o report.html --windows 40
train demo --run runs/demo
train meteonet --data NW --variant paper --recipe paper --dry-run
train meteonet --data NW --variant paper --recipe paper --run runs/nw
train meteonet --data NW2016.csv --run runs/nw
train mine.zarr --run runs/first --preset demo
train mine.zarr --run runs/mine
train mine.zarr --run runs/mine --preset demo
train mine.zarr --run runs/mine --preset weather2k
train mine.zarr --run runs/mine --preset weather2k --dry-run
train w2k.zarr --variant paper --set 'lift.w_alt=$w km/m' --run 'runs/w_alt_$w'
train weather2k --data weather2k.npy --run runs/w2k
train weather2k --data weather2k.npy --start 2023-01-01 --time-zone UTC --variant paper --recipe paper --dry-run
train weather2k --data weather2k.npy --start 2023-01-01 --time-zone UTC --variant paper --recipe paper --run runs/w2k
train weather2k --data weather2k.npy --variant paper --recipe paper --dry-run
"""

# Mentioned in prose: some lack required arguments.
MENTIONED = r"""
ablate ../shared/data/inmet_south/observations.npz --seeds 0:3 --cells benchmarks/cells/ablation --page \
  docs/results.md -o out/ablation
ablate STORE
ablate STORE --parts no_pde,
benchmark --help
benchmark ../shared/data/inmet_south/observations.npz --models \
  persistence,climatology,ridge_nb,mlp_nb@0,blend@0,lift,default,default-no_pde --seeds 0:3 --leave-out 5 --cells \
  benchmarks/cells --page docs/results.md -o out/left-out
benchmark ../shared/data/inmet_south/observations.npz --models \
  persistence,yesterday,climatology,ridge,ridge_nb,mlp@0,mlp_nb,blend,dlinear@0,itransformer,timemixer@0,timexer@0,timefilter@0,multipatchformer@0,cdpnet@0,autoformer@0,stemgnn@0,corrformer@0,lift,physics,default,paper \
  --seeds 0:5 --cells benchmarks/cells --page docs/results.md -o out/benchmark
benchmark ../shared/data/inmet_south/observations.npz --protocol meteonet-like --models \
  persistence,climatology,ridge_nb,mlp_nb,blend,itransformer,default --seeds 0 --horizons 24@0:3,48,96 --cells \
  benchmarks/cells --page docs/results.md -o out/hourly
benchmark STORE
benchmark STORE --models A,B
config init
config init mine.toml
config schema
config show
config show --variant paper
data info STORE
data info STORE --plot F.png
data ingest
data ingest --help
data ingest SOURCE -o OUT.zarr
data qc STORE
data qc mine.zarr
data synth
data synth OUT.zarr
data synth demo.zarr
data validate STORE
data validate mine.zarr
data where DATASET
data where meteonet
data where table
data where weather2k
demo --out DIR
evaluate RUN
evaluate RUN --against A,B --by lead,
export RUN --format pt2
field cv
field cv STORE
field lift --help
field lift STORE OUT.zarr
field plot
field plot FIELDS -o F.png
field sample FIELDS POINTS.csv
forecast --watch
forecast RUN --obs STORE -o F.nc
ops bench
ops bench --quick
ops check --module evaporation.py
ops check --module lakes/evaporation.py
ops check NAME
ops check evaporation
ops check lake_evaporation
ops list
ops list PATTERN
ops show NAME
ops show NAME --markdown
ops show surface
plot altitude RUN
plot errors RUN
plot map RUN
plot map RUN --obs STORE -o map.png
plot parts RESULTS.json
plot physics
plot physics RUN
plot router RUN
plot router RUN --obs STORE -o router.png
plot series RUN
plot transport STORE
plot w-alt STORE
report RUN
report RUN --obs STORE
run list
run list runs
train DATASET --run DIR
train new.zarr --init runs/w2k --run runs/w2k-2
"""  # noqa: E501 - a list of models has no place to break


def lines(text: str) -> list[str]:
    """Return the lines of `TYPED` or `MENTIONED`; a backslash at the end of a line continues it."""
    return text.strip().replace("\\\n", " ").splitlines()
