from train.launch.plan.ssh import ssh_command, ssh_prefix
from train.record.source import ROOT


def test_a_command_runs_in_the_folder_of_the_kit_with_its_words_kept():
    *ssh, host, line = ssh_command("n1", ["echo", "two words"])
    assert ssh[0] == "ssh"
    assert ssh[1::2] == ["-o"] * 4
    assert (host, line) == ("n1", f"cd {ROOT} && echo 'two words'")


def test_a_host_that_no_longer_answers_is_given_up():
    assert "-o ServerAliveInterval=5 -o ServerAliveCountMax=2" in ssh_prefix()
