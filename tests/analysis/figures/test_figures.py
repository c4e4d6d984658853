import pytest

from analysis.figures import Entry, select
from tests.helpers.drawn_figures import study_of
from tests.helpers.tidy_rows import row, table

TABLE = table(row("images_per_s", 100, 1), row("images_per_s", 50, 1, model="vgg16"), row("wall_s", 9, 1))


def test_rows_have_the_value_or_one_of_the_values():
    assert select(TABLE, {"quantity": "images_per_s", "model": ("vgg16", "alexnet")})["value"].tolist() == [50]
    assert select(TABLE, None).empty


def test_local_rows_are_the_measured_ones_unless_controls_are_asked_for(results):
    run = {"system.cpus_per_node": 0.2, "launcher": {"name": "emulated", "flat_within_fraction": 0.1}}
    for role in ("point", "control"):
        results.add(role=role, **run, **{"distribution.allreduce": role == "point"})
    local = results.table()
    where = {"experiment": "weak_scaling"}
    measured = Entry("x", lambda points: None, None, where).points(study_of(local, TABLE))
    assert set(measured.local["kind"]) == {"measured"}
    assert measured.published.empty
    both = Entry("x", lambda points: None, None, where | {"kind": ("measured", "control")}).points(
        study_of(local, TABLE)
    )
    assert set(both.local["kind"]) == {"measured", "control"}


@pytest.mark.parametrize("where", [{"no_such_column": 1}])
def test_an_unknown_column_is_an_error(where):
    with pytest.raises(KeyError):
        select(TABLE, where)
