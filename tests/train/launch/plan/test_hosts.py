from dataclasses import replace

from train.launch.plan.hosts import Host, heterogeneous, unfit

GOOD = Host("a", "node-a", 28, [], "Xeon", 2**34, sees_results=True, has_image=True, has_singularity=True,
            cpu_flags=["avx2"])  # fmt: skip
OTHER = replace(GOOD, name="b", hostname="node-b")


def test_fit_hosts_are_fit(tmp_path):
    assert unfit([GOOD, OTHER], tmp_path, None) == []
    assert heterogeneous([GOOD, OTHER]) is None


def test_each_unfit_host_is_named_with_what_to_do(tmp_path):
    found = [replace(GOOD, sees_results=False), replace(OTHER, has_image=False, has_singularity=False)]
    folder, image, engine = unfit(found, tmp_path, "/images/kit.sif")
    assert "a: does not see" in folder
    assert str(tmp_path) in folder
    assert "RESULTS=" in folder
    assert "b: lacks the image /images/kit.sif" in image
    assert "b: there is no command singularity" in engine


def test_two_names_of_one_host_are_not_two_nodes(tmp_path):
    [problem] = unfit([GOOD, replace(GOOD, name="a.cluster")], tmp_path, None)
    assert "a and a.cluster are the same host, node-a" in problem


def test_hosts_of_different_hardware_are_listed():
    assert "b 8 cores" in (heterogeneous([GOOD, replace(OTHER, cores=8)]) or "")
