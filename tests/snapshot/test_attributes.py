from __future__ import annotations

import pytest

from genericdp.snapshot.attributes import why_no_file, why_no_folder


@pytest.mark.parametrize(
    ("name", "subsystem"),
    [
        ("uevent", "hwmon"),
        ("vendor", "pci"),
        ("numa_node", "pci"),
        ("sriov_numvfs", "pci"),
        ("serial", "usb"),
        ("bInterfaceNumber", "usb"),
        ("address", "net"),
        ("state", "infiniband"),
        ("name", "hwmon"),
        ("tpm_version_major", "tpm"),
        ("current_link_speed", "pci"),
        ("product_name", "dmi"),
        ("keyboard", "input"),
    ],
)
def test_what_says_what_a_device_is_is_copied(name: str, subsystem: str) -> None:
    assert why_no_file(name, subsystem) == ""


@pytest.mark.parametrize(
    ("name", "subsystem"),
    [
        ("config", "pci"),
        ("rom", "pci"),
        ("resource", "pci"),
        ("resource0_wc", "pci"),
        ("w1_slave", "w1"),
        ("temp1_input", "hwmon"),
        ("urbnum", "usb"),
        ("pp_dpm_sclk", "pci"),
        ("pubek", "tpm"),
        ("fault", "enclosure"),
        ("password_in", "iscsi_session"),
        ("key", "thunderbolt"),
        ("backing_file", "block"),
        ("product_serial", "dmi"),
        ("board_asset_tag", "dmi"),
    ],
)
def test_what_acts_counts_or_is_private_is_not_copied(name: str, subsystem: str) -> None:
    assert why_no_file(name, subsystem)


@pytest.mark.parametrize(
    "name", ["power", "statistics", "hw_counters", "msi_irqs", "gids", "pcr-sha256"]
)
def test_folders_of_counters_are_not_copied(name: str) -> None:
    assert why_no_folder(name)


@pytest.mark.parametrize("name", ["ports", "queue", "tty", "device"])
def test_folders_of_facts_are_copied(name: str) -> None:
    assert not why_no_folder(name)
