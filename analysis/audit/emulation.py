"""Rules over one's own emulated nodes: whether this machine could hold them apart."""

from collections.abc import Iterator

import pandas as pd

from analysis import control
from analysis.audit.finding import TABLE_RULES, Finding, rule
from analysis.audit.points import called, measured


@rule(TABLE_RULES)
def emulated_nodes_disturbed(table: pd.DataFrame) -> Iterator[Finding]:
    """Emulated nodes that are slower, or faster, among others than alone although they exchange nothing.

    Then they compete for something that their quotas do not share out (caches, memory, a core that others use), and
    what the points with allreduce lose is not the allreduce's. One finding an experiment, on the largest deviation;
    one where points have no control.
    """
    if "control_off" not in table:
        return
    emulated = measured(table, "images_per_s")
    emulated = emulated[emulated["cpus_per_node"].notna()]
    for experiment, rows in emulated.groupby("experiment", sort=False):
        beyond = rows[rows["control_off"].abs() > rows["flat_within_fraction"]]
        if not beyond.empty:
            worst = max(beyond.to_dict("records"), key=lambda row: abs(row["control_off"]))
            yield Finding(
                "own", f"{worst['place']}: {called(worst)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: without allreduce, {worst['nodes']} nodes {worst['control_off']:+.1%} off one alone",
                f"within {worst['flat_within_fraction']:.0%}", worst["control_off"],
                f"This machine cannot emulate {control.numbers(beyond['nodes'])}; figures draw those points hollow. Is "
                "it otherwise idle? Fewer nodes, or a smaller launcher.cores_fraction, may hold.",
            )  # fmt: skip
        missing = rows[rows["control_off"].isna()]
        if not missing.empty:
            one = missing.to_dict("records")[0]
            yield Finding(
                "own", f"{one['place']}: {called(one)}", "emulated_nodes_disturbed", "serious",
                f"{experiment}: no control on {one['nodes']} nodes", "it without allreduce, and one node alone", None,
                "Nothing says whether the nodes disturbed each other. The same command measures what is missing.",
            )  # fmt: skip
