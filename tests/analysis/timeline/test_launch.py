import pytest

from analysis import TableError
from analysis.study import Study
from analysis.timeline.launch import find_launches
from tests.helpers.own_records import make_record, save
from tests.helpers.timelines import BEGAN_S, begin_s, launch_with_timeline, load


def test_all_ranks_are_on_the_clock_of_rank_0(tmp_path):
    launch = load(launch_with_timeline(tmp_path))
    for times in launch.ranks:
        assert times.phases[0] == ("start", BEGAN_S - 0.5, BEGAN_S)
        assert times.phases[1].begin_s == BEGAN_S
        assert times.steps[0].begun_at == pytest.approx(begin_s(0))
        assert times.profiled_at == pytest.approx(begin_s(12))
    assert [times.clock_error_s for times in launch.ranks] == [0.0, 0.0002]


def test_the_newest_of_each_run_and_only_launches_with_a_timeline(tmp_path):
    save(make_record("timeline"), tmp_path)
    launch_with_timeline(tmp_path, "vgg16")
    launch_with_timeline(tmp_path)
    newest = launch_with_timeline(tmp_path, generation=2)
    assert find_launches(Study(tmp_path).records, ["resnet50"]) == [newest]
    assert len(find_launches(Study(tmp_path).records)) == 2


def test_a_file_that_was_changed_or_is_missing_is_named(tmp_path):
    path = launch_with_timeline(tmp_path)
    written = path.with_name("horovod-timeline.json")
    written.write_text(written.read_text() + " ")
    with pytest.raises(TableError, match=r"horovod-timeline.json: not the file of the record beside it"):
        load(path)
    path.with_name("operations-1.json.gz").unlink()
    written.write_text(written.read_text()[:-1])
    with pytest.raises(TableError, match=r"operations-1.json.gz: No such file"):
        load(path)
