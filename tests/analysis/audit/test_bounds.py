import pytest

from tests.helpers.findings import record_findings
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import CoreUse, MatrixProduct, Usage, Work


@pytest.mark.parametrize(("rows", "alleged"), [(1000, False), (100, True)])
def test_no_rate_beyond_what_the_processors_multiply(rows, alleged):
    """16 images/s of 10^8 operations. A product of 1000 x 1000 in 0.1 s: 2 x 10^10 a second, 200 images/s."""
    run = make_record(batch_per_rank=8, step_s=0.5)
    run.work = Work(10**8, 4)
    run.ranks[0].matrix_products = [MatrixProduct(rows, [0.1])]
    assert bool(record_findings("beyond_limits", run)) is alleged


def test_the_limit_of_the_links_counts_too():
    run = make_record(nodes=2)
    run.work = Work(None, 10**6)
    from train.record.record import Transfer

    for rank in run.ranks:
        rank.transfers = [Transfer("tcp_ring", "x", 1000, 1.0)]
    (finding,) = record_findings("beyond_limits", run)
    assert "as its links carry" in finding.follows


@pytest.mark.parametrize(
    ("flags", "time_s", "alleged"),
    [
        (["avx", "avx2", "avx512f"], 0.1, False),
        (["avx", "avx2", "avx512f"], 0.04, True),
        (["avx", "avx2"], 0.1, False),
        (["avx", "avx2"], 0.08, True),
        (["neon"], 0.001, False),
        (["avx512f", "amx_bf16"], 0.001, False),
    ],
)
def test_products_are_no_faster_than_the_instruction_sets_allow(flags, time_s, alleged):
    """2048 x 2048 are 1.72e10 operations: at 6.5 GHz, 64 and 32 a cycle, 0.0413 and 0.0826 s on one core."""
    run = make_record()
    run.environment.hosts[0].state.cpu_flags = flags
    run.ranks[0].matrix_products = [MatrixProduct(2048, [0.2, time_s])]
    assert bool(record_findings("beyond_instructions", run)) is alleged
    run.config["precision"] = "bf16"
    assert not record_findings("beyond_instructions", run)


@pytest.mark.parametrize(("peak", "sampled", "alleged"), [(900, 890, False), (900, 905, False), (900, 920, True)])
def test_the_peak_of_memory_is_no_less_than_a_sample(peak, sampled, alleged):
    run = make_record()
    run.ranks[0].peak_memory_bytes = peak * 10**6
    run.ranks[0].usage = Usage([4.0], [1.0], [sampled * 10**6], [None], [None])
    assert bool(record_findings("impossible_memory", run)) is alleged


@pytest.mark.parametrize(("batch", "peak", "alleged"), [(8, 930, False), (8, 910, True), (32, 930, True)])
def test_weights_gradients_and_half_of_what_images_add_are_in_memory(batch, peak, alleged):
    """250 MB of the process, 2 x 100 MB of weights and gradients, 8 x 60 MB of images: 930 MB, 1 % may lack."""
    of_model = {"name": "resnet50", "train_layers": "all", "activation_bytes_per_image": 120 * 10**6}
    run = make_record(batch_per_rank=batch, of_model=of_model)
    run.work, run.ranks[0].peak_memory_bytes = Work(None, 10**8), peak * 10**6
    assert bool(record_findings("impossible_memory", run)) is alleged
    run.config["model"]["train_layers"] = "last"  # then the process alone counts
    assert not record_findings("impossible_memory", run)


def test_no_control_above_ideal():
    """With the batch kept, two ranks take 0.5 s as one does, or less: 0.4 s are an efficiency of 1.25."""
    scatter = [1 + i % 3 / 1000 for i in range(12)]

    def rounds(base, point, control):
        return settle(make_rounds([(base * s, point, control) for s in scatter]))

    assert not record_findings("above_ideal", rounds(0.5, 0.5, 0.5))
    (finding,) = record_findings("above_ideal", rounds(0.5, 0.8, 0.4))
    assert "efficiency 1.25" in finding.stated
    assert not record_findings("above_ideal", rounds(0.5, 0.4, 0.5))  # the point: `beyond_ideal` names it


@pytest.mark.parametrize(("joules", "alleged"), [(None, False), (0.0, False), (600, False), (9000, True), (-5, True)])
def test_no_power_that_processors_cannot_take(joules, alleged):
    run = make_record()
    run.ranks[0].timed_cores = CoreUse(2.0, 1.9, 1.9, 0.0, energy_j=joules)
    assert bool(record_findings("impossible_power", run)) is alleged
