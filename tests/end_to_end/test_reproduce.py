"""A report reproduced as far as this machine can, by its make target."""

import pytest

from tests.helpers.kit import make_command, needs_setup, records, run
from train.record import reproduction

pytestmark = [pytest.mark.end_to_end, needs_setup]


def test_what_can_run_is_measured_and_what_cannot_is_named_on_one_page(tmp_path):
    kit = tmp_path / "kit"
    given = ("REPORT=000", "NODES=1", "MODELS=tiny", "REPEATS=1", "ARGS=tracking=none measure.design=launches")
    status, output = run(*make_command(kit, "reproduce", *given))
    assert status == 0, output
    (made,) = records(kit / "results")
    assert (made.experiment, made.status, len(made.ranks[0].step_times_s)) == ("fixed_work", "complete", 16)
    outcomes = {one.experiment: one for one in reproduction.read(kit / "results", "000").outcomes}
    assert {name: one.status for name, one in outcomes.items()} == {"fixed_work": "measured", "cifar10": "not run"}
    assert f"cannot run here: cifar10: {outcomes['cifar10'].why}" in output
    page = (kit / "figures/reproduce-000.html").read_text()
    assert outcomes["cifar10"].why.partition(";")[0] in page
    assert page.count("data:image/svg") > 3
