import numpy as np
import pytest

from analysis.figures import registry
from analysis.figures.settings import positioned
from record.schema import CoreUse
from tests.helpers.drawn_figures import draw, lines
from tests.helpers.run_records import Arm, make_record, make_rounds, save
from tests.helpers.studies import curve_in_rounds

LINK = "system.link_mbit_per_s"


def test_null_comes_last_and_values_in_proportion(results):
    for link in (None, 100, 1000, 500):
        results.add(experiment="mine", swept={LINK: link}, **{LINK: link})
    table, values = positioned(results.table())
    assert values[:3] == [100, 500, 1000]
    assert np.isnan(values[3])
    runs = table.drop_duplicates("record").sort_values("position")
    assert runs["position"].tolist() == [0, 1, 2, 3]
    assert runs["axis_value"].tolist()[:3] == [100, 500, 1000]


@pytest.mark.slow
def test_a_sweep_of_any_number_is_drawn_over_its_values(results):
    # 8 images in 0.5 s and 0.4 s: 16 and 20 images/s
    for momentum, step_s in ((0.0, 0.5), (0.5, 0.5), (0.9, 0.4)):
        swept = {"optimizer.momentum": momentum}
        results.add(experiment="mine", step_s=step_s, swept={"model": "resnet50", **swept}, **swept)
    figure = draw("own-mine-throughput", results.table())
    x, y = next((x, y) for _, x, y in lines(figure) if len(x) == 3 and x[0] != x[-1])
    assert (x.tolist(), y.tolist()) == (pytest.approx([0, 0.5, 0.9]), pytest.approx([16, 16, 20]))
    assert figure.axes[0].get_xlabel() == "optimizer.momentum"


@pytest.mark.slow
def test_series_without_an_axis_stand_side_by_side_with_the_interval_between_their_launches(results):
    """Steps of 0.5 to 1.0 s, of 8 images: six launches hold the median of all between their ends in 0.97 of cases."""
    for repeat in range(6):
        results.add(experiment="mine", swept={"optimizer": "sgd"}, repeat=repeat, step_s=0.5 + repeat / 10)
    results.add(experiment="mine", swept={"optimizer": "adam"}, **{"optimizer.name": "adam"})
    [axes] = draw("own-mine-throughput", results.table()).axes
    assert {text.get_text() for text in axes.get_yticklabels()} == {"ResNet50, n=1\nadam", "ResNet50, n=6\nsgd"}
    bars = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert pytest.approx((8.0, 16.0)) in bars


@pytest.mark.slow
def test_a_node_that_is_divided_shows_its_ranks_and_threads(results):
    for ranks in (1, 2):
        results.add(
            experiment="mine", ranks_per_node=ranks, threads_per_rank=4 // ranks, batch_per_rank=8 // ranks,
            derived=["batch_per_rank", "threads_per_rank"], swept={"ranks_per_node": ranks},
        )  # fmt: skip
    figure = draw("own-mine", results.table())
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1 x 4", "2 x 2"]


# Energy is in made-up records alone: no machine that counts its energy was available.


def counted(run, joules_per_image, gpu_joules_per_image=None):
    """Return the record with this energy of the host's processors and of the GPUs of all ranks together."""
    images = run.config["global_batch"] * len(run.ranks[0].step_times_s)
    for rank in run.ranks:
        host_j = joules_per_image * images if rank.rank == 0 and joules_per_image else None
        gpu_j = gpu_joules_per_image * images / len(run.ranks) if gpu_joules_per_image else None
        rank.timed_cores = CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=host_j, gpu_energy_j=gpu_j)
    return run


def test_each_experiment_that_counted_energy_has_its_figure(results):
    for nodes in (1, 2):
        save(counted(make_record(nodes=nodes), 10.0), results.folder)
    save(counted(make_record("mine", swept={"model": "resnet50"}), 10.0), results.folder)
    results.add(experiment="other", swept={"model": "resnet50"})
    curve_in_rounds(results.folder, experiment="strong_scaling")
    ids = [entry.id for entry in registry.experiment_figures(results.table())]
    assert [id for id in ids if "energy" in id] == ["own-mine-energy", "own-weak-scaling-energy"]


@pytest.mark.slow
def test_each_point_has_the_median_of_its_rounds_and_their_interval(results):
    run = make_rounds([(1.0, 1.0)] * 6, [Arm(1), Arm(2)])
    for window in run.ranks[0].windows:
        images = 2 * 8 * (1 + window.arm)
        more = (0, 3, 1, 4, 2, 5)[window.round]  # neighbours are not alike
        joules_per_image = (10 + more, 8 + more / 2)[window.arm]
        window.cores = CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules_per_image * images)
    save(run, results.folder)
    figure = draw("own-weak-scaling-energy", results.table())
    # The median of the geometric means of all pairs of 10, 11 ... 15, and of 8, 8.5 ... 10.5.
    assert any(np.allclose(y, [12.4097, 9.2195], atol=1e-4) for _, _, y in lines(figure) if len(y) == 2)
    # Three times as far as the outermost rounds, on the logarithm: 12.4097 (10 / 12.4097)^3, ...
    [axes] = figure.axes
    ends = [path.vertices[:, 1].tolist() for bars in axes.collections for path in bars.get_paths()]
    assert [pytest.approx(pair, rel=1e-3) in ends for pair in ([6.4935, 21.916], [6.0236, 13.619])] == [True, True]
    assert any(len(y) == 12 for _, _, y in lines(figure))  # the dots


@pytest.mark.slow
def test_gpus_have_a_separate_panel_of_series_side_by_side(results):
    save(counted(make_record("mine", swept={"model": "resnet50"}), 10.0, gpu_joules_per_image=3.0), results.folder)
    processors, gpus = draw("own-mine-energy", results.table()).axes
    assert (processors.get_xlabel(), gpus.get_xlabel()) == ("processors [J/image]", "GPUs [J/image]")
    for axes, joules in ((processors, 10.0), (gpus, 3.0)):
        assert [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == ">"] == [pytest.approx(joules)]
