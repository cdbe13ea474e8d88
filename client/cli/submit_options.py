"""The options of `yardctl submit`, named as sbatch has them where it has them."""

from enum import StrEnum
from typing import Annotated

import typer


class Wait(StrEnum):
    """Until when a job that was submitted is followed."""

    NONE = "none"
    BOUND = "bound"
    RUNNING = "running"
    FINISHED = "finished"


CommandArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[--] COMMAND...", help="What each pod runs.", show_default=False),
]
JobFiles = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE", help="Jobs of a file instead of flags."),
]
NameOption = Annotated[
    str | None, typer.Option("--job-name", "-J", help="Made up of COMMAND without.")
]
NodesOption = Annotated[int | None, typer.Option("--nodes", "-N", min=1, help="Nodes.")]
GpusOption = Annotated[int | None, typer.Option("--gpus", "-G", min=1, help="Of all nodes.")]
GpusPerNodeOption = Annotated[
    int | None, typer.Option(min=1, max=63, help="Of each node; 8 without.")
]
GpuOption = Annotated[str | None, typer.Option(help="GPU model.")]
TpOption = Annotated[int | None, typer.Option(min=1, help="Tensor parallel size.")]
CpOption = Annotated[int | None, typer.Option(min=1, help="Context parallel size.")]
PpOption = Annotated[int | None, typer.Option(min=1, help="Pipeline parallel size.")]
EpOption = Annotated[int | None, typer.Option(min=1, help="Expert parallel size.")]
DpOption = Annotated[
    int | None, typer.Option(min=1, help="Data parallel size; what is left of the GPUs.")
]
WithinOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[GROUP=]LEVEL[!]",
        help="Keep the job, or a group such as pp, in one domain of a level; ! = required.",
    ),
]
TimeOption = Annotated[
    str | None, typer.Option("--time", "-t", help="Limit: minutes, HH:MM:SS or D-HH:MM.")
]
QueueOption = Annotated[str | None, typer.Option("--queue", "--partition", "-p", help="Queue.")]
PriorityOption = Annotated[int | None, typer.Option(help="Higher goes first.")]
NodelistOption = Annotated[
    str | None, typer.Option("--nodelist", "-w", help="Only these, as in n[001-004],n009.")
]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option("--constraint", "-C", metavar="KEY=VALUE", help="Label a node must have."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="KEY=VALUE", help="Variable of each pod."),
]
CpusOption = Annotated[int | None, typer.Option("--cpus-per-node", min=0, help="CPUs of each pod.")]
MemGibOption = Annotated[
    float | None, typer.Option("--mem", metavar="GIB", min=0, help="Memory of each pod.")
]
SparesOption = Annotated[int | None, typer.Option(min=0, help="Nodes kept for recovery.")]
MaxRestartsOption = Annotated[
    int | None, typer.Option(min=0, help="Crashes of its own that are forgiven.")
]
ExclusiveOption = Annotated[bool, typer.Option("--exclusive", help="Alone on its nodes.")]
NoPreemptOption = Annotated[
    bool, typer.Option("--no-preempt", help="It never makes way for another job.")
]
WaitIfNeverOption = Annotated[
    bool, typer.Option("--even-if-never", help="Wait though not even all nodes would do.")
]
TestOnlyOption = Annotated[
    bool, typer.Option("--test-only", help="Say where it would go; keep nothing.")
]
ShowOption = Annotated[
    bool, typer.Option("--show", help="Write the job's file instead of submitting.")
]
WaitOption = Annotated[
    Wait | None,
    typer.Option(help="Until when it is followed; running on a terminal, else none."),
]
TimeoutSOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Longest wait.")
]
