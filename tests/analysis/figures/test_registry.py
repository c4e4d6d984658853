import matplotlib as mpl
import pytest

from analysis.figures import Entry, Kind, captions, diagnosis, plots, registry, scaling, settings, training
from analysis.study import Study
from tests.helpers.drawn_figures import drawn, lines, study_of
from tests.helpers.own_records import Results
from tests.helpers.own_studies import fill
from train.record.record import Epoch

# Every figure that the records of conf/experiment have.
OWN = {
    *(f"own-{name}-{kind}"
      for name in ("weak-scaling", "strong-scaling", "fixed-work", "bnl-throughput", "tf-benchmarks")
      for kind in ("throughput", "efficiency", "steps", "phases")),
    *(f"own-{name}-{kind}" for name in ("accuracy-digits", "fruit", "caltech256", "imdb-wiki")
      for kind in ("curves", "time-to-accuracy", "usage", "accuracy", "throughput", "efficiency", "steps", "phases")),
    "own-batch-sweep", "own-ranks-threads", "own-ranks-threads-efficiency", "own-ranks-threads-steps",
    "own-ranks-threads-phases", "own-overhead",
    "own-network-sweep", "own-equivalence", "own-allreduce-bench-time", "own-allreduce-bench-bandwidth",
}  # fmt: skip
REPORTS = [entry.id for report in registry.REPORTS for entry in report.FIGURES]
# Experiments of which another one above has the same kinds of figures.
ALIKE = tuple(f"own-{name}-" for name in ("strong-scaling", "fixed-work", "bnl-throughput", "tf-benchmarks", "fruit",
                                         "accuracy-digits"))  # fmt: skip


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    return fill(Results(tmp_path_factory.mktemp("records") / "results")).table()


@pytest.fixture(scope="session")
def figures(local):
    return registry.figures(local)


@pytest.mark.slow
def test_each_experiment_in_the_records_has_the_figures_that_fit_it(figures):
    assert {id for id in figures if id.startswith("own-")} == OWN


@pytest.mark.slow
def test_without_records_there_are_the_figures_of_the_reports_alone(tmp_path):
    assert list(registry.figures(Study(tmp_path).local)) == REPORTS
    assert len(REPORTS) == len(set(REPORTS)) == 33


def test_every_text_is_that_of_a_figure_or_of_a_kind_of_figures():
    modules = (diagnosis, scaling, settings, training)
    kinds = [one.key for module in modules for one in vars(module).values() if isinstance(one, Kind)]
    assert sorted(captions()) == sorted([*REPORTS, *kinds])


def test_two_figures_of_one_id_are_an_error(monkeypatch, tmp_path):
    twice = Entry("002-throughput", lambda points: None)
    monkeypatch.setattr(registry.bnl, "FIGURES", [*registry.bnl.FIGURES, twice])
    with pytest.raises(ValueError, match="002-throughput"):
        registry.figures(Study(tmp_path).local)


@pytest.mark.slow
@pytest.mark.parametrize("id", [*REPORTS, *sorted(id for id in OWN if not id.startswith(ALIKE))])
def test_every_figure_is_one_column_wide_and_holds_all_it_draws(id, local, figures):
    entry = figures[id]
    with mpl.rc_context(fname=plots.STYLE):
        figure = entry.draw(entry.points(study_of(local)))
        width, height = figure.get_size_inches()
        assert width * 25.4 == pytest.approx(85)
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    assert box.x0 >= -0.02
    assert box.y0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02
    assert len(entry.caption) > 40


@pytest.mark.slow
@pytest.mark.parametrize("id", REPORTS)
def test_every_figure_of_a_report_is_drawn_without_local_records(id, tmp_path):
    figure = drawn(id, Study(tmp_path).local)
    assert not any("local," in label for label, _, _ in lines(figure))


EPOCHS = [Epoch(1, 10, 2.0, 1.0, 0.5, 1.0, 0.9)]


def ids(results):
    return [entry.id for entry in registry.experiment_figures(results.table())]


def test_a_sweep_over_ranks_per_node_has_the_figures_of_scaling(results):
    for ranks in (1, 2, 4):
        results.add(experiment="my_ranks", ranks_per_node=ranks, swept={"model": "resnet50", "ranks_per_node": ranks})
    assert ids(results) == [f"own-my-ranks-{name}" for name in ("throughput", "efficiency", "steps", "phases")]


def configured(key, value):
    """The configuration of a swept value; of a group its name."""
    return {f"{key}.name": value} if key == "optimizer" else {key: value}


@pytest.mark.parametrize(
    ("swept", "values", "result"),
    [
        ("optimizer.momentum", (0.0, 0.9), ["own-mine-throughput"]),
        ("distribution.fusion_threshold_bytes", (1, 5), ["own-mine-throughput"]),
        ("batch_per_rank", (4, 8), ["own-mine"]),
        ("optimizer", ("sgd", "adam"), ["own-mine-throughput"]),
        ("seed", (0, 1), ["own-mine-throughput"]),
    ],
)
def test_a_sweep_over_any_key_has_a_figure(results, swept, values, result):
    for repeat, value in enumerate(values):
        results.add(experiment="mine", repeat=repeat, swept={swept: value}, **configured(swept, value))
    assert ids(results) == result


def test_training_has_its_figures_and_the_final_accuracy_where_something_is_swept(results):
    results.add(experiment="alone", epochs=EPOCHS, swept={})
    results.add(experiment="swept", epochs=EPOCHS, swept={"optimizer.momentum": 0.9})
    names = [id.removeprefix("own-") for id in ids(results)]
    kinds_of = [name.removeprefix("alone-") for name in names if name.startswith("alone-")]
    assert kinds_of == ["curves", "time-to-accuracy", "usage", "throughput"]
    assert "swept-accuracy" in names


def test_runs_of_one_experiment_that_swept_other_keys_have_separate_figures(results):
    for nodes in (1, 2):
        results.add(experiment="mine", nodes=nodes, swept={"nodes": nodes})
    for repeat, momentum in ((1, 0.0), (2, 0.9)):
        results.add(experiment="mine", repeat=repeat, swept={"optimizer.momentum": momentum})
    assert ids(results) == [
        "own-mine-throughput", "own-mine-efficiency", "own-mine-steps", "own-mine-phases",
        "own-mine-throughput-over-optimizer-momentum",
    ]  # fmt: skip


def test_controls_alone_have_no_figure(results):
    run = {"system.cpus_per_node": 0.2, "launcher": {"name": "emulated", "flat_within_fraction": 0.1}}
    results.add(experiment="mine", role="control", **run, **{"distribution.allreduce": False})
    assert ids(results) == []
