from analysis.audit.emulation import emulated_nodes_disturbed
from analysis.table import loading

QUOTA = {"system": {"name": "laptop", "cores_per_node": 1, "cpus_per_node": 0.2, "link_mbit_per_s": None}}
QUOTA |= {"launcher": {"name": "emulated", "flat_within_fraction": 0.1}}
NO_ALLREDUCE = {"distribution": {"backend": "horovod", "allreduce": False, "controller": "gloo"}, "role": "control"}


def findings(results) -> list:
    return list(emulated_nodes_disturbed(loading.local(results.folder).table))


def test_a_control_beyond_its_bound_is_serious(results):
    for nodes, control_s in ((1, 0.5), (2, 0.52), (4, 0.625)):
        results.add(nodes=nodes, step_s=0.7, **QUOTA)
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    (finding,) = findings(results)
    assert (finding.severity, round(finding.off, 6)) == ("serious", -0.2)
    assert finding.stated == "weak_scaling: without allreduce, 4 nodes -20.0% off one alone"
    assert finding.meaning.startswith("This machine cannot emulate 4 nodes")


def test_a_control_on_the_most_nodes_is_stated_of_these(results):
    for nodes in (1, 4, 8):
        results.add(nodes=nodes, step_s=0.7, **QUOTA)
    for nodes, control_s in ((1, 0.5), (8, 0.625)):
        results.add(nodes=nodes, step_s=control_s, **QUOTA, **NO_ALLREDUCE)
    (finding,) = findings(results)
    assert finding.stated == "weak_scaling: without allreduce, 8 nodes -20.0% off one alone"
    assert finding.place.endswith("8 ranks")
    assert finding.meaning.startswith("This machine cannot emulate 4, 8 nodes")


def test_a_flat_control_is_no_finding_and_a_missing_one_is(results):
    for nodes in (1, 2):
        results.add(nodes=nodes, step_s=0.5, **QUOTA)
        results.add(nodes=nodes, step_s=0.5, **QUOTA, **NO_ALLREDUCE)
    assert findings(results) == []
    results.add(nodes=8, step_s=0.5, **QUOTA)
    (finding,) = findings(results)
    assert finding.stated == "weak_scaling: no control on 8 nodes"
