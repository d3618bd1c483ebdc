"""The mutants of what went wrong with devices elsewhere."""

from __future__ import annotations

from tests.mutants.table import _mutant

DEVICES = (
    _mutant(
        "D1",
        "devices/hardware.py",
        '    name = f"{place.name}-{device.subsystem}"',
        "    name = device.subsystem",
        "devices/test_hardware.py::test_ids_of_three_equal_dongles_differ",
    ),
    _mutant(
        "D2",
        "devices/grouping.py",
        "members.setdefault(known.text, [])",
        "members.setdefault(str(len(members)), [])",
        "devices/test_grouping.py::test_nodes_are_paired_by_a_text_of_theirs_never_by_their_index",
    ),
    _mutant(
        "D3",
        "devices/offers.py",
        "            offered[device_id] = _same(before, gone)",
        "            offered[device_id] = before",
        "devices/test_offers.py::"
        "test_a_device_that_vanishes_is_unhealthy_at_once_and_one_that_comes_is_seen",
    ),
    _mutant(
        "D3",
        "supervisor.py",
        "                if watch.set_folders(self._to_watch(discovery)):",
        "                if False:",
        "test_allocating.py::test_a_device_that_vanishes_is_unhealthy_at_once_and_comes_back",
    ),
    _mutant(
        "D4",
        "service.py",
        "            self._refuse(reason, devices)\n",
        "            pass\n",
        "test_allocating.py::test_a_node_that_vanished_just_now_is_not_handed_out",
    ),
    _mutant(
        "D5",
        "host/devicefiles.py",
        "found.identity == identity and not found.trouble",
        "found.identity.device_number == identity.device_number",
        "test_allocating.py::test_another_device_on_the_same_path_is_refused",
        "hardware/test_identity.py::test_another_stick_on_the_same_node_is_another_device",
    ),
    _mutant(
        "D6",
        "health/thresholds.py",
        "return WELL if outcome.ok else",
        "return WELL if outcome.ok and state.healthy is not False else",
        "health/test_thresholds.py::test_so_many_results_in_a_row_change_the_state",
    ),
    _mutant(
        "D6",
        "health/kernellog.py",
        "    after = watcher.recover_after_seconds",
        "    after = None",
        "health/test_kernellog.py::test_it_recovers_so_long_after_the_last_line",
    ),
    _mutant(
        "D7",
        "devices/inventory.py",
        '            key = f"{self.type}:{major}:{minor}"',
        '            key = f"{self.path}:{major}:{minor}"',
        "host/test_devicefiles.py::test_a_link_and_its_target_have_one_key_and_one_identity",
        "test_discovery.py::test_a_device_is_given_once_whichever_way_it_is_reached",
    ),
    _mutant(
        "D8",
        "devices/matching.py",
        "        owners |= {one.file.key: resource.name for one in own}\n",
        "",
        "devices/test_matching.py::test_the_first_resource_that_takes_a_candidate_owns_it",
    ),
    _mutant(
        "D9",
        "devices/allocation.py",
        "raise self._conflict(container_path, present.host_path, device, node.host_path)",
        "pass",
        "devices/test_allocation.py::"
        "test_one_fixed_container_path_for_two_devices_is_refused_with_a_remedy",
        "test_allocating.py::test_devices_that_would_collide_are_refused_with_the_remedy",
    ),
    _mutant(
        "D10",
        "devices/hardware.py",
        "(number := decimal(node)) is not None",
        "(number := int(node)) is not None",
        "devices/test_hardware.py::test_the_numa_node_is_the_nearest_that_is_one_and_online",
    ),
    _mutant(
        "D11",
        "devices/conditions.py",
        "    return next((one for one in asked if not one.holds), None)",
        "    held = [one for one in asked if not one.holds]\n"
        "    return held[0] if len(held) > 1 else None",
        "devices/test_conditions.py::test_all_properties_must_hold",
    ),
    _mutant(
        "D12",
        "devices/conditions.py",
        """glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )""",
        'any(__import__("re").match(one, self.found) for one in self.wanted)',
        "devices/test_conditions.py::test_one_glob_dialect_everywhere",
    ),
    _mutant(
        "D13",
        "host/devicefiles.py",
        "            return stat.S_ISDIR(self._root.lstat(path).st_mode)",
        "            return os.path.isdir(self._root.real(path))",
        "host/test_devicefiles.py::test_a_wildcard_does_not_lead_through_a_link_to_a_folder",
    ),
    _mutant(
        "D14",
        "devices/conditions.py",
        "        below = nearest(device, facts, is_one)",
        "        below = device if is_one(device) else None",
        "devices/test_candidates.py::test_the_node_of_what_sits_on_a_usb_device",
    ),
    _mutant(
        "D15",
        "service.py",
        "        return messages.allocation(containers)",
        "        return messages.allocation([containers[-1]] * len(containers))",
        "test_allocating.py::test_each_container_of_a_request_gets_its_own_devices",
    ),
)
