"""A fault ends a job within a minute: the limits that this rests on, added up. No test measures how long it took."""

from train.distribution import cluster
from train.launch.plan.ssh import SSH_OPTIONS
from train.launch.supervise import job_run

MINUTE_S = 60


def test_a_host_that_falls_silent_is_given_up_and_then_asked_what_is_left_there():
    of_ssh = dict(option.split("=") for option in SSH_OPTIONS)
    silent_s = int(of_ssh["ServerAliveInterval"]) * (int(of_ssh["ServerAliveCountMax"]) + 1)  # ssh_config(5)
    assert silent_s + job_run._GRACE_S + int(of_ssh["ConnectTimeout"]) < MINUTE_S


def test_a_worker_of_a_strategy_that_does_not_come_or_hangs_is_given_up():
    assert max(cluster._COME_WITHIN_S, cluster._READY_WITHIN_S) < MINUTE_S
