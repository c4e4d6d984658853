"""Rules over emulated nodes: whether this machine could isolate them."""

from collections.abc import Iterator

import pandas as pd

from analysis.audit.finding import TABLE_RULES, Finding, rule
from analysis.audit.words import called
from analysis.curves import measured
from analysis.table import controls


@rule(TABLE_RULES)
def emulated_nodes_disturbed(table: pd.DataFrame) -> Iterator[Finding]:
    """Emulated nodes that are slower, or faster, among others than alone although they exchange nothing.

    Then they compete for something that their quotas do not divide (caches, memory, a core that others use), and the
    loss of the points with allreduce is not caused by the allreduce alone. One finding an experiment, on the largest
    deviation; one where points have no control.
    """
    if "control_off" not in table:
        return
    emulated = measured(table, "images_per_s")
    emulated = emulated[emulated["cpus_per_node"].notna()]
    for experiment, rows in emulated.groupby("experiment", sort=False):
        beyond = rows[rows["control_off"].abs() > rows["flat_within_fraction"]]
        if not beyond.empty:
            worst = max(beyond.to_dict("records"), key=lambda row: (abs(row["control_off"]), row["nodes"]))
            of_control = f"{worst['control_nodes']} nodes {worst['control_off']:+.1%} off one alone"
            yield Finding(
                "local", f"{worst['place']}: {called(worst)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: without allreduce, {of_control}",
                f"within {worst['flat_within_fraction']:.0%}", worst["control_off"],
                f"This machine cannot emulate {controls.numbers(beyond['nodes'])}; figures draw those points hollow. "
                "Is it otherwise idle? Try fewer nodes, or a smaller launcher.cores_fraction.",
            )  # fmt: skip
        missing = rows[rows["control_off"].isna()]
        if not missing.empty:
            one = missing.to_dict("records")[0]
            yield Finding(
                "local", f"{one['place']}: {called(one)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: no control on {one['nodes']} nodes",
                "a run without allreduce, and one on one node", None,
                "It is not known whether the nodes disturbed each other. The same command measures what is missing.",
            )  # fmt: skip
