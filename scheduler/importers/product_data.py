"""What GPU products and cloud machines are called by those who report them."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU and the servers it is built into.

    Attributes:
        pattern: Found in the product's name in lower case.
        gpu: The name that jobs ask for.
        types: GPUs of one node -> the built-in node type that has so many.
    """

    pattern: re.Pattern[str]
    gpu: str
    types: tuple[tuple[int, str], ...] = ()


def _product(pattern: str, gpu: str, *types: tuple[int, str]) -> Product:
    return Product(re.compile(pattern), gpu, types)


PRODUCTS = (
    # Shares of a GPU are their own product.
    _product(r"mig-\d+g|-shared$", ""),
    _product(r"\bgb200", "GB200-186GB", (4, "gb200-tray")),
    _product(r"\bb200", "B200-180GB", (8, "hgx-b200")),
    _product(r"\bh200(?!-?nvl)", "H200-141GB", (8, "hgx-h200")),
    _product(r"\bh100-(?:pcie|nvl)", ""),
    _product(r"\bh100", "H100-80GB", (8, "hgx-h100")),
    _product(r"\ba100-pcie", ""),
    _product(r"\ba100-(?:sxm4?-?)?80gb", "A100-80GB", (8, "hgx-a100")),
    _product(r"\ba100-(?:sxm4?-?)?40gb", "A100-40GB", (8, "hgx-a100-40gb")),
    _product(r"\bmi300x", "MI300X-192GB", (8, "mi300x-8")),
    _product(r"\bascend-?910c", "Ascend-910C", (8, "ascend-910c")),
)
"""The first that matches counts; one without a name keeps the name it was reported with."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """A machine of a cloud.

    Attributes:
        product: The GPU, as in `PRODUCTS`.
        rails, nic_gbps: The network of its GPUs; 0 = that of the built-in type.
    """

    product: str
    rails: int = 0
    nic_gbps: float = 0.0


CLOUD_MACHINES = {
    "p4d.24xlarge": Cloud("a100-40gb", 4, 100.0),
    "p4de.24xlarge": Cloud("a100-80gb", 4, 100.0),
    "p5.48xlarge": Cloud("h100"),
    "p5e.48xlarge": Cloud("h200"),
    "p5en.48xlarge": Cloud("h200"),
    "a3-highgpu-8g": Cloud("h100", 4, 200.0),
    "a3-megagpu-8g": Cloud("h100", 8, 200.0),
    "a3-ultragpu-8g": Cloud("h200"),
    "a4-highgpu-8g": Cloud("b200"),
    "a4x-highgpu-4g": Cloud("gb200"),
    "standard_nd96asr_v4": Cloud("a100-40gb"),
    "standard_nd96amsr_a100_v4": Cloud("a100-80gb"),
    "standard_nd96isr_h100_v5": Cloud("h100"),
    "standard_nd96isr_h200_v5": Cloud("h200"),
    "bm.gpu4.8": Cloud("a100-40gb"),
    "bm.gpu.a100-v2.8": Cloud("a100-80gb"),
    "bm.gpu.h100.8": Cloud("h100"),
    "bm.gpu.h200.8": Cloud("h200"),
    "bm.gpu.b200.8": Cloud("b200"),
    "bm.gpu.gb200.4": Cloud("gb200"),
    "bm.gpu.mi300x.8": Cloud("mi300x"),
}
"""By instance type in lower case. From the machine tables of AWS EC2 accelerated instances, Google
Compute Engine accelerator machines, Azure ND series and OCI GPU shapes; network per direction."""
