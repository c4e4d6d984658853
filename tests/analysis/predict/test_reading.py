import math

import numpy as np
import pytest

from analysis import PUBLISHED, TableError
from analysis.predict import Obstacle, calibration, joined, reading
from analysis.study import Study
from analysis.user_table import table_contract
from tests.helpers.run_records import Arm, make_record, make_rounds, save, with_roofline
from tests.helpers.tidy_rows import curve as curve_rows
from tests.helpers.tidy_rows import table


def write_table(tmp_path, text):
    path = tmp_path / "curve.csv"
    path.write_text(text)
    return table_contract.read_table(path)


def read(tmp_path, text):
    return reading.file(write_table(tmp_path, text))


def test_how_gradients_are_exchanged_is_known_where_it_is_stated(tmp_path):
    user = write_table(tmp_path, "ranks,images_per_s\n1,100\n2,190\n4,370\n")
    (unstated,), (allreduce,), (server,) = (reading.file(user, exchange) for exchange in (None, "allreduce", "server"))
    assert (unstated.may_saturate, allreduce.may_saturate) == (True, False)
    assert [bool(curve.obstacles) for curve in (unstated, allreduce, server)] == [False, False, True]
    assert not any(curve.may_saturate for curve in calibration.published_curves(Study().published).curves)


def test_a_file_with_the_ends_of_an_interval(tmp_path):
    header = "model,ranks,images_per_s,ranks_per_node,batch_per_rank,n,low,high"
    (whole,) = read(tmp_path, f"{header}\nresnet50,4,380,4,32,12,376,384\nresnet50,1,100,4,32,12,99,101\n")
    header = "GPUs,img/sec per GPU,global batch,low,high,wall time"  # the rate of a rank, and the batch of all
    (per_rank,) = read(tmp_path, f"{header}\n1,100,32,99,101,9\n4,95,128,94,96,3\n")
    assert [(curve.model, curve.name) for curve in (whole, per_rank)] == [("resnet50", "batch 32"), ("", "batch 32")]
    assert (whole.ranks_per_node, math.isnan(per_rank.ranks_per_node)) == (4, True)
    for curve in (whole, per_rank):
        assert (curve.ranks.tolist(), curve.images_per_s.tolist()) == ([1, 4], [100, 380])
        assert curve.step_s == pytest.approx([32 / 100, 32 * 4 / 380])
        assert curve.spread == pytest.approx([2 / 3.92 / 100, 8 / 3.92 / 380])


@pytest.mark.parametrize(
    ("text", "rates", "work"),
    [
        ("GPUs,epoch time (s)\n1,100\n2,50\n4,25\n", [0.01, 0.02, 0.04], "epochs"),
        ("GPUs,training time (min)\n1,10\n2,5\n", [1 / 600, 1 / 300], "runs"),
        ("GPUs,steps,global batch,time (s)\n1,40,8,10\n2,20,16,5\n", [32, 64], "images"),
        ("GPUs,speedup\n1,1\n2,1.9\n4,3.6\n", [1, 1.9, 3.6], ""),
        ("GPUs,efficiency (%)\n1,100\n2,95\n4,90\n", [1, 1.9, 3.6], ""),
        ("GPUs,tok/s\n1,1000\n2,1900\n", [1000, 1900], "tokens"),
    ],
)
def test_a_time_a_speedup_or_an_efficiency_is_a_rate_too(tmp_path, text, rates, work):
    (curve,) = read(tmp_path, text)
    assert curve.images_per_s == pytest.approx(rates)
    assert curve.unit == f"{work or 1}/s"


def test_one_curve_a_model_and_batch_unless_the_global_batch_is_kept(tmp_path):
    rows = "a,1,10,8\na,2,19,8\na,1,9,4\na,2,17,4\nb,1,10,8\nb,2,18,4\nb,4,30,2\n"
    curves = read(tmp_path, "model,ranks,images_per_s,batch_per_rank\n" + rows)
    names = [(curve.model, curve.name, curve.strong) for curve in curves]
    assert names == [("a", "batch 4", False), ("a", "batch 8", False), ("b", "", True)]
    a, b = joined(curves)
    assert a.strong
    assert (a.ranks.tolist(), a.batch.tolist(), b.batch.tolist()) == ([1, 1, 2, 2], [4, 8, 4, 8], [8, 4, 2])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ranks,images_per_s\n4,100\n4,110\n", "no curve is measured on two numbers of ranks; allowed: two or more"),
        ("model,ranks,images_per_s\na,1,2\nb,2,3\n", "no curve is measured on two numbers of ranks"),
        ("ranks,images_per_s,low,high\n4,100,99,101\n8,190,200,210\n", r"line 3: low, high: 200, 210 .*rate \(190\)"),
        ("ranks,images_per_s,low,high\n4,100,99,101\n8,190,170,180\n", r"line 3: low, high: 170, 180 .*rate \(190\)"),
    ],
)
def test_bad_input_names_the_file_the_line_and_what_is_allowed(tmp_path, text, error):
    with pytest.raises(TableError, match=rf"curve\.csv.*{error}"):
        read(tmp_path, text)


def test_repeats_are_averaged_and_a_curve_on_a_single_number_of_ranks_is_left_out_beside_others(tmp_path):
    (curve,) = read(tmp_path, "model,ranks,images_per_s\na,1,100\na,1,110\na,2,200\nb,4,300\n")
    assert (curve.model, curve.images_per_s.tolist()) == ("a", [105, 200])


def test_a_page_counts_instead_of_its_copy_and_updates_distinguish_curves():
    copied = curve_rows("images_per_s", {1: 30, 2: 58, 4: 117})
    source = {"run": "primary source", "note": "variable update: replicated"}
    page = curve_rows("images_per_s", {1: 30.5, 2: 57.8, 4: 116}, **source)
    update = source | {"note": "variable update: parameter_server(cpu)", "place": "further down"}
    server = curve_rows("images_per_s", {1: 29.7, 8: 229}, **update)
    curves = reading.published(table(*copied, *page, *server))
    assert [curve.images_per_s.tolist() for curve in curves] == [[30.5, 57.8, 116], [29.7, 229]]
    assert [bool(curve.obstacles) for curve in curves] == [False, True]


def test_the_published_curves_that_cross_nodes():
    curves = calibration.published_curves(Study().published).curves
    assert len(reading.file(table_contract.read_table(PUBLISHED / "000_hacksa.csv"))) == 3  # a tidy table
    assert len(curves) == 57
    across = [curve for curve in curves if curve.name.endswith("distributed_replicated")]
    assert len(across) == 5
    assert all(curve.ranks.tolist() == [1, 8, 16, 32, 64] and curve.ranks_per_node == 8 for curve in across)
    (vgg,) = [curve for curve in curves if curve.model == "vgg19"]
    assert vgg.images_per_s[:2].tolist() == [170.24, 2 * 169.37]  # printed per GPU
    assert np.isnan(vgg.ranks_per_node)
    (inception,) = [curve for curve in curves if curve.model == "inceptionv4"]
    assert inception.ranks.tolist() == [1, 2, 4, 8]  # the speed on 16 is printed as 0


def test_local_records_give_the_interval_batch_and_ranks_per_node(results):
    for nodes, step_s in ((1, 0.5), (2, 0.52), (4, 0.55)):
        for repeat in range(6):
            results.add(nodes=nodes, ranks_per_node=2, step_s=step_s * (1 + 0.01 * repeat), repeat=repeat)
    (curve,) = reading.local(results.table())
    assert (curve.model, curve.ranks.tolist(), curve.batch.tolist()) == ("resnet50", [2, 4, 8], [8, 8, 8])
    assert curve.ranks_per_node == 2
    assert curve.spread[0] == pytest.approx(math.log(1.05) / 3.92, rel=2e-2)  # neighbours are alike: over all six
    assert curve.obstacles == ()


def test_shared_cores_are_a_caveat_that_names_its_points(results):
    for nodes in (1, 2, 4):
        run = make_record(nodes=nodes)
        run.cores_shared = nodes == 4
        save(run, results.folder)
    (curve,) = reading.local(results.table())
    assert curve.obstacles == (Obstacle("ranks shared cores", (4,)),)
    assert curve.only(curve.ranks < 4).obstacles == ()


def test_variables_on_a_server_are_a_caveat(results):
    for nodes in (1, 2, 4):
        results.add(nodes=nodes, **{"distribution.backend": "ps_cpu"})
    (curve,) = reading.local(results.table())
    assert ["by a parameter server" in obstacle.reason for obstacle in curve.obstacles] == [True]


def test_a_curve_has_the_limits_that_its_jobs_measured(results):
    for nodes in (1, 2, 4):
        save(with_roofline(make_record(nodes=nodes, batch_per_rank=3)), results.folder)
        results.add(experiment="without", nodes=nodes)
    curves = {name: reading.local(rows)[0] for name, rows in results.table().groupby("experiment")}
    bounds = {name: (curve.image_s, curve.ring_s) for name, curve in curves.items()}
    assert bounds == {"weak_scaling": pytest.approx((1 / 5, 0.1)), "without": (0, 0)}  # 0.1 GB at 1 GB/s


def test_the_step_without_allreduce_is_that_of_the_largest_control(results):
    arms = (Arm(1), Arm(2), Arm(4), Arm(4, allreduce=False))
    save(make_rounds([[0.5, 0.6, 0.7, 0.52]] * 3, arms), results.folder)
    (curve,) = [curve for curve in reading.local(results.table()) if curve.ranks.tolist() == [1, 2, 4]]
    assert curve.compute_s == pytest.approx(0.52)
    assert curve.step_s == pytest.approx([0.5, 0.6, 0.7])
