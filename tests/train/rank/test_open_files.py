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


def test_it_is_raised_as_far_as_needed_and_never_lowered(limit):
    limit(1024)
    open_files.allow_for(8)
    assert soft() == 1024
    open_files.allow_for(128)
    assert soft() == 512 + 8 * 128
    open_files.allow_for(8)
    assert soft() == 512 + 8 * 128


@pytest.mark.parametrize(
    ("hard", "raised"), [(1_000_000, 512 + 8 * 1024), (resource.RLIM_INFINITY, 512 + 8 * 1024), (4096, 4096)]
)
def test_a_thousand_ranks_get_what_they_need_or_all_that_is_allowed(monkeypatch, hard, raised):
    asked = []
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda of: (1024, hard))
    monkeypatch.setattr(open_files.resource, "setrlimit", lambda of, limits: asked.append(limits))
    open_files.allow_for(1024)
    monkeypatch.undo()  # before the limits of this process are put back
    assert asked == [(raised, hard)]
