import matplotlib as mpl
import pytest

from analysis.figures import (
    FigureEntry,
    FigureKind,
    atlas_figure,
    captions,
    diagnosis,
    plots,
    registry,
    scaling,
    settings,
    training_figures,
)
from analysis.study import Study
from record.schema import Epoch, Failure
from tests.helpers.drawn_figures import draw, lines
from tests.helpers.run_records import QUOTA, Results, make_rounds, save
from tests.helpers.studies import curve_in_rounds, fill

# The figures of records of all experiments in conf/experiment.
EXPERIMENT_FIGURES = {
    *(f"own-{name}-{kind}"
      for name in ("weak-scaling", "strong-scaling", "fixed-work", "bnl-throughput", "tf-benchmarks")
      for kind in ("throughput", "efficiency", "steps", "phases")),
    *(f"own-{name}-{kind}" for name in ("accuracy-digits", "fruit", "caltech256", "imdb-wiki")
      for kind in ("curves", "time-to-accuracy", "usage", "accuracy", "throughput", "efficiency", "steps", "phases")),
    "own-batch-sweep", "own-ranks-threads", "own-ranks-threads-efficiency", "own-ranks-threads-steps",
    "own-ranks-threads-phases", "own-overhead",
    "own-network-sweep", "own-equivalence", "own-allreduce-bench-time", "own-allreduce-bench-bandwidth",
}  # fmt: skip
FIGURES = [entry for report in registry.REPORTS for entry in report.FIGURES]
REPORTS = [entry.id for entry in FIGURES]
# Experiments whose kinds of figures another experiment above has too.
ALIKE = tuple(f"own-{name}-" for name in ("strong-scaling", "fixed-work", "bnl-throughput", "tf-benchmarks", "fruit",
                                         "caltech256", "accuracy-digits"))  # fmt: skip


def test_a_figure_names_its_points_whose_launches_failed(results):
    failure = Failure("killed by signal 9", rank=1)
    for nodes, repeat, failed in ((1, 0, None), (1, 1, failure), (2, 0, failure)):  # of one node there is a point
        results.add(nodes=nodes, repeat=repeat, failure=failed)
    results.add(experiment="strong_scaling", nodes=4, failure=failure)
    study = results.study()
    missing = {id: entry.points(study).missing for id, entry in registry.figures(study.local).items()}
    assert missing["001-figure-5"] == "not drawn of local runs: resnet50_nodes=2: killed by signal 9 (rank 1)"
    assert missing["001-figure-6"] == ""  # of GPUs
    assert missing["001-figure-7"].endswith("resnet50_nodes=4: killed by signal 9 (rank 1)")
    assert missing["000-vgg19"] == missing["003-throughput"] == ""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fill(Results(tmp_path_factory.mktemp("records") / "results")).study()


@pytest.fixture(scope="module")
def figures(study):
    return registry.figures(study.local)


@pytest.mark.slow
def test_each_experiment_in_the_records_has_the_figures_that_fit_it(figures):
    assert {id for id in figures if id.startswith("own-")} == EXPERIMENT_FIGURES


def test_every_text_is_that_of_a_figure_or_of_a_kind_of_figures():
    modules = (atlas_figure, diagnosis, scaling, settings, training_figures)
    kinds = [kind.key for module in modules for kind in vars(module).values() if isinstance(kind, FigureKind)]
    assert sorted(captions()) == sorted([*REPORTS, *kinds])


def test_a_caption_has_at_most_forty_words_and_says_what_is_in_its_figure(results):
    for id, texts in captions().items():
        words = " ".join([texts["shows"], texts["caption"], *texts.get("if", {}).values()]).split()
        assert 8 <= len(words) <= 40, f"{id}: {len(words)} words"
    results.add(nodes=2)
    alone = results.table()
    curve_in_rounds(results.folder)
    entry = registry.figures(alone)["own-weak-scaling-throughput"]
    assert "rounds" not in entry.caption(alone)
    assert "Faint dots: rounds." in entry.caption(results.table())


def test_two_figures_of_one_id_are_an_error(monkeypatch):
    twice = FigureEntry("002-throughput", lambda points: None)
    monkeypatch.setattr(registry.bnl, "FIGURES", [*registry.bnl.FIGURES, twice])
    with pytest.raises(ValueError, match="002-throughput"):
        registry.figures(Study().local)


def test_experiments_whose_names_differ_in_punctuation_alone_have_their_figures(results):
    for name in ("a-b", "a_b", "a b"):
        results.add(experiment=name, swept={"nodes": 1})
    entries = registry.figures(results.table())
    shown = {id: entry.local["experiment"] for id, entry in entries.items() if id.startswith("own-") and "throu" in id}
    assert shown == {"own-a-b-throughput": "a b", "own-a-b-throughput-2": "a-b", "own-a-b-throughput-3": "a_b"}


@pytest.mark.slow
@pytest.mark.parametrize("id", [*REPORTS, *sorted(id for id in EXPERIMENT_FIGURES if not id.startswith(ALIKE))])
def test_every_figure_is_one_column_wide_and_holds_all_it_draws(id, study, figures):
    entry = figures[id]
    with mpl.rc_context(fname=plots.STYLE):
        figure = entry.draw(entry.points(study))
        figure.get_layout_engine().execute(figure)
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert width * 25.4 == pytest.approx(85)
    assert min(box.x0, box.y0) >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("id", [entry.id for entry in FIGURES if entry.local])
def test_every_figure_of_a_report_is_drawn_without_local_records(id):
    figure = draw(id, Study().local)
    assert not any("local," in label for label, _, _ in lines(figure))


def ids(results):
    return [entry.id for entry in registry.experiment_figures(results.table())]


@pytest.mark.parametrize(
    ("swept", "values", "kinds"),
    [
        ("ranks_per_node", (1, 2), ["-throughput", "-efficiency", "-steps", "-phases"]),
        ("optimizer.momentum", (0.0, 0.9), ["-throughput"]),
        ("distribution.fusion_threshold_bytes", (1, 5), ["-throughput"]),
        ("batch_per_rank", (4, 8), [""]),
        ("optimizer", ("sgd", "adam"), ["-throughput"]),
        ("seed", (0, 1), ["-throughput"]),
    ],
)
def test_a_sweep_over_any_key_has_the_figures_that_fit_it(results, swept, values, kinds):
    key = "optimizer.name" if swept == "optimizer" else swept
    for repeat, value in enumerate(values):
        results.add(experiment="my_own", repeat=repeat, swept={swept: value}, **{key: value})
    assert ids(results) == [f"own-my-own{kind}" for kind in kinds]


def test_training_has_its_figures_and_the_final_accuracy_where_something_is_swept(results):
    epochs = [Epoch(1, 10, 2.0, 1.0, 0.5, 1.0, 0.9)]
    results.add(experiment="alone", epochs=epochs, swept={})
    results.add(experiment="swept", epochs=epochs, swept={"optimizer.momentum": 0.9})
    names = ids(results)
    assert names[:4] == [f"own-alone-{kind}" for kind in ("curves", "time-to-accuracy", "usage", "throughput")]
    assert "own-swept-accuracy" in names


def test_runs_of_one_experiment_that_swept_other_keys_have_separate_figures(results):
    for nodes in (1, 2):
        results.add(experiment="mine", nodes=nodes, swept={"nodes": nodes})
    for repeat, momentum in ((1, 0.0), (2, 0.9)):
        results.add(experiment="mine", repeat=repeat, swept={"optimizer.momentum": momentum})
    kinds = ("throughput", "efficiency", "steps", "phases", "throughput-over-optimizer-momentum")
    assert ids(results) == [f"own-mine-{kind}" for kind in kinds]


def test_controls_alone_have_no_figure_and_rounds_have_the_phases_of_their_largest_point(results):
    results.add(experiment="mine", role="control", **QUOTA, **{"distribution.allreduce": False})
    assert ids(results) == []
    save(make_rounds([(0.5, 0.8, 0.55)] * 6), results.folder)
    kinds = {"throughput", "efficiency", "phases", "steps", "diagnosis", "atlas"}
    assert set(ids(results)) == {f"own-weak-scaling-{kind}" for kind in kinds}
