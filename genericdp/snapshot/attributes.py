"""Which attribute files of sysfs a snapshot copies: those that say what a device is.

The others are left alone, each kind for a reason. What is not readable for everybody is never
copied, so that a snapshot that root has taken holds nothing that an ordinary user could not see.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

MOST_BYTES = 4096
"""Of one attribute: what the kernel writes as text is never more."""

ACTS = "reading it may act on the hardware, or is binary"
CHANGES = "it counts or measures: another value at each look"
PRIVATE = "it may be a secret, or somebody's own text"
_FILES = {
    # PCI: configuration space, option ROM, BARs (also as a list of addresses), vital product data.
    **dict.fromkeys(("config", "rom", "resource", "resource[0-9]*", "vpd", "mmio*"), ACTS),
    # USB and HID: as binary; what they say is in attributes of their own.
    **dict.fromkeys(("descriptors", "bos_descriptors", "report_descriptor", "edid"), ACTS),
    # Asking a link, a bus or a firmware; a conversion; an answer that takes a second.
    **dict.fromkeys(("w1_slave", "eeprom", "nvram", "pcrs", "measurements", "dump"), ACTS),
    # Graphics cards: a read wakes one that sleeps.
    **dict.fromkeys(("pp_*", "gpu_metrics", "pm_metrics", "*_busy_percent", "mem_info_*"), ACTS),
    **dict.fromkeys(("gt_*", "*_freq", "*_freq_*", "throttle_*"), CHANGES),
    **dict.fromkeys(("stat", "inflight", "urbnum", "uptime", "*_usage", "*_count"), CHANGES),
    **dict.fromkeys(("carrier_*", "*_time", "*_ns", "*_bytes", "*_errors", "aer_*"), CHANGES),
    **dict.fromkeys(("meminfo", "vmstat", "numastat", "*_stats", "*_stat"), CHANGES),
    **dict.fromkeys(("*password*", "*secret*", "key", "*_key", "*_psk"), PRIVATE),
    **dict.fromkeys(("username*", "backing_file", "*asset_tag*"), PRIVATE),
}
"""By glob of the name."""
_FOLDERS = {
    **dict.fromkeys(("power", "statistics", "stats", "counters", "hw_counters"), CHANGES),
    **dict.fromkeys(("trace", "wakeup", "errors", "lifs"), CHANGES),
    # InfiniBand: hundreds for each port, mostly empty.
    **dict.fromkeys(("gids", "gid_attrs", "pkeys"), CHANGES),
    # One for each queue, interrupt or processor: thousands that no config tells devices apart by.
    **dict.fromkeys(("queues", "mq", "msi_irqs", "cpu_list", "events", "format"), CHANGES),
}
_MEASURING = frozenset(
    (
        *("hwmon", "thermal", "iio", "power_supply", "w1", "rtc", "watchdog", "leds", "ptp"),
        *("tpm", "enclosure", "regulator", "backlight", "devfreq", "powercap", "edac", "pps"),
    )
)
"""Subsystems of which many a read is a question to a chip, over slow buses at that."""
_NAMING = frozenset(
    (
        *("name", "type", "label", "model", "manufacturer", "serial", "serial_number", "id"),
        *("dev", "modalias", "tpm_version_major", "model_name"),
    )
)
"""What is copied of them all the same."""
_OF_FIRMWARE = {"dmi"}
_PRIVATE_OF_FIRMWARE = ("*serial*", "*uuid*")


@lru_cache(maxsize=4096)  # thousands of devices have the same few hundred
def why_no_file(name: str, subsystem: str) -> str:
    """Say why an attribute of a device of that subsystem is not copied; empty: it is."""
    if name == "uevent":
        return ""
    for pattern, reason in _FILES.items():
        if fnmatchcase(name, pattern):
            return reason
    if subsystem in _MEASURING and name not in _NAMING:
        return CHANGES
    if subsystem in _OF_FIRMWARE and any(fnmatchcase(name, one) for one in _PRIVATE_OF_FIRMWARE):
        return PRIVATE
    return ""


def why_no_folder(name: str) -> str:
    """Say why a folder of attributes is not copied; empty: it is."""
    # Each file in a folder as ``pcr-sha256`` is a command to the TPM.
    return ACTS if name.startswith("pcr-") else _FOLDERS.get(name, "")
