import pytest

from analysis.explain import cells
from analysis.predict import reading
from analysis.table import headers


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("GPUs", "ranks"),
        ("num_gpus", "ranks"),
        ("Number of workers", "ranks"),
        ("np", "ranks"),
        ("GPUs per node", "ranks_per_node"),
        ("Steps", "steps_per_rank"),
        ("iterations per GPU", "steps_per_rank"),
        ("planned_steps_per_worker", "steps_per_rank"),
        ("Batch size / GPU", "batch_per_rank"),
        ("Training time [s]", "wall_s"),
        ("wall-clock (sec)", "wall_s"),
        ("img/sec/GPU", "images_per_s_per_rank"),
        ("examples_per_s_per_gpu", "images_per_s_per_rank"),
        ("Images/s", "images_per_s"),
        ("imgs/sec", "images_per_s"),
        ("Global batch size", "global_batch"),
        ("Network", "model"),
        ("Repeats", "n"),
        ("trial", "repeat"),
        ("lower", "low"),
        ("throughput", ""),
        ("colour", ""),
    ],
)
def test_common_headers_are_understood(header, name):
    assert headers.name(header) == name


def test_a_header_that_may_be_of_one_rank_or_of_all_says_so():
    assert headers.meanings("Batch size") == ("batch_per_rank", "global_batch")
    assert headers.meanings("batch size per GPU") is None


def test_every_name_means_one_column():
    names = [headers.normal(other) for name, others in headers.SYNONYMS.items() for other in (name, *others)]
    assert sorted(names) == sorted(set(names))
    assert not set(headers.AMBIGUOUS) & set(names)


def test_each_command_reads_names_of_the_list_alone():
    read = {*cells.COLUMNS, *(column.name for column in reading.COLUMNS)}
    assert read == set(headers.SYNONYMS)
    assert set(headers.EXAMPLES) <= read
