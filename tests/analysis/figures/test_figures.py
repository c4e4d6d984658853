import pytest

from analysis.figures import WITH_CONTROL, Entry, select
from tests.helpers.drawn_figures import make_study
from tests.helpers.run_records import QUOTA
from tests.helpers.tidy_rows import row, table

TABLE = table(row("images_per_s", 100, 1), row("images_per_s", 50, 1, model="vgg16"), row("wall_s", 9, 1))


def test_rows_have_the_value_or_one_of_the_values():
    assert select(TABLE, {"quantity": "images_per_s", "model": ("vgg16", "alexnet")})["value"].tolist() == [50]
    assert select(TABLE, None).empty
    with pytest.raises(KeyError):
        select(TABLE, {"no_such_column": 1})


def test_local_rows_are_the_measured_ones_unless_controls_are_asked_for(results):
    for role in ("point", "control"):
        results.add(role=role, **QUOTA, **{"distribution.allreduce": role == "point"})
    study = make_study(results.table(), TABLE)
    for where, kinds in (({}, {"measured"}), (WITH_CONTROL, {"measured", "control"})):
        points = Entry("x", lambda _: None, None, {"experiment": "weak_scaling", **where}).points(study)
        assert set(points.local["kind"]) == kinds
        assert points.published.empty
