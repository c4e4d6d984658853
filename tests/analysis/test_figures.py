import hashlib
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest

from analysis import TableError, draw, figures, plots, tables
from analysis.__main__ import main
from tests.helpers.own_records import make_record, save
from train.record.record import AllreduceTimes, Epoch, Transfer

pytestmark = pytest.mark.slow

STEP_S = {"vgg16": 1.6, "resnet50": 0.5, "inceptionv3": 0.7, "vgg19": 1.9, "resnet101v2": 0.9, "inceptionv4": 1.1}


@cache
def published():
    return tables.published()


def fill(results):
    """Records of every experiment: two repeats, or one; the largest point with shared cores is hollow."""
    epochs = [Epoch(i, 10, 2.0, 1 / i, 1 - 0.5 / i, 1 / i, 1 - 0.6 / i) for i in range(1, 6)]
    for repeat in range(2):
        factor = 1 + 0.01 * repeat
        for model in ("vgg16", "resnet50", "inceptionv3"):
            step = STEP_S[model] * factor
            for nodes in (1, 2):
                results.add(model=model, nodes=nodes, step_s=step, repeat=repeat)
                results.add(experiment="strong_scaling", model=model, nodes=nodes, batch_per_rank=8 // nodes,
                            step_s=step / nodes, repeat=repeat)  # fmt: skip
                results.add(experiment="bnl_throughput", model=model, nodes=nodes, step_s=step, repeat=repeat)
                results.add(experiment="tf_benchmarks", model=model, nodes=nodes, batch_per_rank=32 * nodes,
                            step_s=step, repeat=repeat, dataset={"name": "synthetic"})  # fmt: skip
                results.add(experiment="ranks_threads", model=model, ranks_per_node=nodes, step_s=step, repeat=repeat)
                results.add(experiment="batch_sweep", model=model, batch_per_rank=nodes, step_s=step, repeat=repeat)
        for model in ("vgg19", "resnet101v2", "inceptionv4"):
            for nodes in (1, 2, 4):
                results.add(experiment="fixed_work", model=model, nodes=nodes, step_s=STEP_S[model], steps=16 // nodes,
                            repeat=repeat)  # fmt: skip
        for nodes, backend, allreduce in ((1, "none", False), (1, "horovod", True), (2, "horovod", True),
                                          (2, "horovod", False)):  # fmt: skip
            arm = {"backend": backend, "allreduce": allreduce, "controller": "gloo"}
            results.add(experiment="overhead", nodes=nodes, step_s=0.5 * factor, repeat=repeat, distribution=arm)
        for nodes in (2, 4):
            run = make_record("allreduce_bench", nodes=nodes, repeat=repeat, allreduce_sweep={})
            run.config["distribution"]["cycle_time_ms"] = 20
            for rank in run.ranks:
                rank.allreduces = [AllreduceTimes(1 << k, [0.02 * factor]) for k in range(10, 30)]
                rank.transfers = [Transfer("memory_copy", "", 10**9, 0.1)]
            save(run, results.folder)
        for experiment in ("accuracy_digits", "fruit", "caltech256", "imdb_wiki"):
            for nodes in (2, 4):
                results.add(experiment=experiment, model="tiny", nodes=nodes, step_s=0.1, repeat=repeat, epochs=epochs)
    return results.folder


@pytest.fixture(scope="session")
def own(tmp_path_factory):
    from tests.helpers.own_records import Results

    return tables.own(fill(Results(tmp_path_factory.mktemp("records") / "results"))).table


def lines(figure):
    """All drawn lines of a figure as (label or "", x, y)."""
    return [
        (line.get_label(), np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for axes in figure.axes
        for line in axes.get_lines()
    ]


def made(id, own_table):
    entry = figures.load()[id]
    with mpl.rc_context(fname=plots.STYLE):
        return entry.function(entry.points(published(), own_table))


@pytest.mark.parametrize("id", list(figures.load()))
def test_every_figure_is_one_column_wide_and_holds_all_it_draws(id, own):
    with mpl.rc_context(fname=plots.STYLE):
        figure = made(id, own)
        width, height = figure.get_size_inches()
        assert width * 25.4 == pytest.approx(85)
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    assert box.x0 >= -0.02
    assert box.y0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02
    entry = figures.load()[id]
    assert len(entry.caption) > 40


@pytest.mark.parametrize("id", [id for id in figures.load() if not id.startswith("own-")])
def test_every_figure_of_a_report_is_drawn_without_own_records(id, tmp_path):
    figure = made(id, tables.own(tmp_path).table)
    assert not any("own," in label for label, _, _ in lines(figure))


def test_a_published_curve_is_where_it_was_printed(tmp_path):
    drawn = lines(made("000-vgg19", tables.own(tmp_path).table))
    speedups = [y for _, x, y in drawn if x.tolist() == [1, 2, 4, 8, 16, 32]]
    by_time = [193.45 / t for t in (193.45, 101.92, 55.03, 30.83, 18.32, 19.2)]
    by_speed = [
        n * s / 170.24
        for n, s in zip((1, 2, 4, 8, 16, 32), (170.24, 169.37, 165.11, 165.72, 164.77, 163.91), strict=True)
    ]
    assert any(np.allclose(y, by_time) for y in speedups)
    assert any(np.allclose(y, by_speed) for y in speedups)


def test_a_printed_speed_of_zero_is_left_out(tmp_path):
    drawn = lines(made("000-efficiency-speed", tables.own(tmp_path).table))
    assert all((y > 0.9).all() for _, x, y in drawn if len(x) > 2)
    assert sum(x.tolist() == [1, 2, 4, 8] for _, x, y in drawn) >= 1


def test_own_points_are_where_they_were_measured_with_their_interval(results):
    # 8 images in 0.5 s on one node: 16 images/s; 16 in 0.4 and 0.5 s on two: 40 and 32, mean 36
    results.add(nodes=1, step_s=0.5)
    for repeat, step in enumerate((0.4, 0.5)):
        results.add(nodes=2, step_s=step, repeat=repeat)
    table = tables.own(results.folder).table
    drawn = made("own-weak-scaling-throughput", table)
    labels = [label for label, _, _ in lines(drawn)]
    assert "ResNet50, own, n=1 to 2" in labels
    assert any(x.tolist() == [1, 2] and np.allclose(y, [16, 36]) for _, x, y in lines(drawn))
    (bars,) = [c for c in drawn.axes[0].containers if c.has_yerr]
    ends = bars.lines[2][0].get_segments()[-1][:, 1]
    half = 12.7062 * 4  # t(0.975, 1) = 12.7062, and s / sqrt(2) = 4
    assert ends == pytest.approx([36 - half, 36 + half], rel=1e-4)
    note = drawn.legends[0].get_title().get_text()
    assert "AMD EPYC 9B45, 4 cores" in note
    assert "none where n=1" in note


def test_a_point_that_shared_cores_is_hollow_and_says_so(results):
    from tests.helpers.own_records import make_record, save

    results.add(nodes=1)
    crowded = make_record(nodes=2)
    crowded.cores_shared = True
    save(crowded, results.folder)
    drawn = made("001-figure-5", tables.own(results.folder).table)
    hollow = [
        line for line in drawn.axes[0].get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [list(line.get_xdata()) for line in hollow] == [[2]]
    assert "shared cores" in drawn.legends[0].get_title().get_text()


def test_own_fruit_and_own_caltech256_are_told_apart(own):
    drawn = made("004-epoch-time", own).axes[0].get_lines()
    of = {line.get_label().split(",")[0]: line for line in drawn if ", own" in line.get_label()}
    for looks in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(of["fruit"], looks)() != getattr(of["Caltech256"], looks)()


def test_shared_cores_spoil_the_time_to_accuracy_and_not_the_epochs(results):
    from tests.helpers.own_records import make_record, save

    epochs = [Epoch(1, 10, 2.0, 1.0, 0.5, 1.0, 0.9)]
    results.add(experiment="accuracy_digits", nodes=1, epochs=epochs)
    crowded = make_record("accuracy_digits", nodes=2, epochs=epochs)
    crowded.cores_shared = True
    save(crowded, results.folder)
    for id, hollow in (("time-to-accuracy", [[2], [], [2]]), ("curves", [[], []])):
        drawn = made(f"own-accuracy-digits-{id}", tables.own(results.folder).table)
        marks = [[line for line in axes.get_lines() if line.get_markerfacecolor() == "white"] for axes in drawn.axes]
        assert [[x for line in of for x in line.get_xdata()] for of in marks] == hollow
        assert ("shared cores" in drawn.legends[0].get_title().get_text()) == any(hollow)


def test_the_dot_is_where_the_first_step_begins_and_runs_without_samples_do_no_harm(results):
    from tests.helpers.own_records import make_record, save

    epochs = [Epoch(1, 10, 2.0, 1.0, 0.5, 1.0, 0.9)]
    bare = make_record("accuracy_digits", nodes=2, epochs=epochs)
    for rank in bare.ranks:
        rank.usage = None
    save(bare, results.folder)
    drawn = made("own-accuracy-digits-usage", tables.own(results.folder).table)
    assert [text.get_text() for text in drawn.axes[0].texts] == ["no samples: measure.usage_period_s=null"]
    results.add(experiment="accuracy_digits", nodes=1, epochs=epochs)
    drawn = made("own-accuracy-digits-usage", tables.own(results.folder).table)
    assert len(drawn.axes) == 2
    dots = [line for line in drawn.axes[0].get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    # The phases before it: 0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 s; half of the core is in use.
    assert [(list(dot.get_xdata()), list(dot.get_ydata())) for dot in dots] == [([pytest.approx(6.5)], [0.5])]


def test_lost_points_are_not_made_up(tmp_path):
    none = tables.own(tmp_path).table
    for id in ("002-throughput", "001-figure-8"):
        assert {label for label, x, _ in lines(made(id, none)) if len(x)} == {"ideal"}
    # figure 5: the ends alone, and ideal lines
    marks = [x.tolist() for label, x, y in lines(made("001-figure-5", none)) if len(x) == 2]
    assert marks
    assert all(x == [1, 8] for x in marks)


def test_phases_add_up_to_the_job(results):
    results.add(nodes=1, step_s=0.5)
    drawn = made("own-weak-scaling-phases", tables.own(results.folder).table)
    job = 0.5 + 3 + 0.5 + 0.1 + 2 + 0.4 + 6 + 1 + 2 + 0.5
    assert sum(bar.get_height() for bar in drawn.axes[0].patches) == pytest.approx(job)


def test_overhead_is_the_ratio_of_the_arms(results):
    for repeat, (with_s, without_s) in enumerate(((0.5, 0.4), (0.5, 0.5), (0.4, 0.4))):
        for allreduce, step in ((True, with_s), (False, without_s)):
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo"}
            results.add(experiment="overhead", nodes=2, step_s=step, repeat=repeat, distribution=arm)
    drawn = made("own-overhead", tables.own(results.folder).table)
    (label,) = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert "2 ranks: with allreduce / without" in label
    assert "mean 0.933, median 1.000, n=3" in label


def test_overhead_keeps_other_settings_apart(results):
    steps_s = {"flat": {True: 0.5, False: 0.4}, "separate": {True: 0.8, False: 0.4}}
    for gradients, of_arms in steps_s.items():
        for allreduce, step in of_arms.items():
            arm = {"backend": "horovod", "allreduce": allreduce, "controller": "gloo", "gradients": gradients}
            results.add(experiment="overhead", nodes=2, step_s=step, distribution=arm)
    drawn = made("own-overhead", tables.own(results.folder).table)
    labels = [text.get_text().split("\n")[1:] for text in drawn.axes[0].get_yticklabels()]
    assert sorted(labels) == [
        ["flat gradients", "mean 0.800, median 0.800, n=1"],
        ["separate gradients", "mean 0.500, median 0.500, n=1"],
    ]


@pytest.mark.parametrize("id", ["000-explained", "003-efficiency", "own-weak-scaling-efficiency"])
def test_the_same_input_gives_the_same_bytes(id, own, tmp_path):
    entry = figures.load()[id]
    digests = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        draw.save(id, entry.points(published(), own), folder)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()})
    assert digests[0] == digests[1]
    assert set(digests[0]) == {f"{id}.pdf", f"{id}.png", f"{id}.svg"}


def test_draw_skips_what_has_no_records_and_says_what_it_left_out(results, capsys):
    cut = results.add(nodes=1)
    cut.write_bytes(b"{")
    out = results.folder.parent / "figures"
    ids = ["002-throughput", "own-overhead"]
    assert main(["draw", *ids, "--results", str(results.folder), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"figures of own experiments without records in {results.folder}: 1; `list` names them" in said.out
    assert str(cut) in said.err
    assert sorted(path.name for path in out.iterdir()) == [
        "002-throughput.pdf", "002-throughput.png", "002-throughput.svg", "captions.md",
    ]  # fmt: skip
    captions = (out / "captions.md").read_text()
    assert "## 004-model-6" in captions
    assert "## own-overhead" not in captions


def test_a_caption_says_where_own_points_come_from(results):
    results.add(nodes=1)
    entry = figures.load()["001-figure-5"]
    text = draw.caption(entry, entry.points(published(), tables.own(results.folder).table))
    assert "Own points: 1 run on AMD EPYC 9B45, 4 cores, 2026-11-20." in text


def test_an_unknown_figure_is_an_error(capsys):
    assert main(["draw", "001-figure-55"]) == 2
    assert "no figure is called '001-figure-55'; did you mean 001-figure-5" in capsys.readouterr().err
    with pytest.raises(TableError):
        draw.chosen(["nonsense"], figures.load())


def test_list_shows_every_figure_with_its_points(results, capsys):
    results.add(nodes=1)
    assert main(["list", "--results", str(results.folder)]) == 0
    said = capsys.readouterr().out
    assert all(id in said for id in figures.load())
