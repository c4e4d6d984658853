"""The limit of this process is set, and put back."""

import resource

import pytest

from train.rank import open_files


@pytest.fixture(autouse=True)
def limit():
    """A function that sets the limit of this process, as `ulimit -Sn`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_few_ranks_need_no_more_than_there_is(limit):
    limit(1024)
    open_files.allow_for(8)
    assert soft() == 1024


def test_a_thousand_ranks_get_what_they_need_or_all_that_is_allowed(limit):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard < 512 + 8 * 1024:
        pytest.skip(f"this machine allows {hard} open files")
    limit(1024)
    open_files.allow_for(1024)
    assert soft() == 512 + 8 * 1024
    open_files.allow_for(8)
    assert soft() == 512 + 8 * 1024  # it is never lowered
    open_files.allow_for(hard)
    assert soft() == hard
