"""The one-line changes that bring back what went wrong elsewhere, and the tests that see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """A change of one place of the code; each of the tests must fail with it."""

    case: str
    file: str
    """Below ``genericdp/``."""
    old: str
    """Stands in the file exactly once."""
    new: str
    tests: tuple[str, ...]
    """As pytest names them, below ``tests/``; their docstrings name the case."""


def _mutant(case: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(case=case, file=file, old=old, new=new, tests=tests)


KUBELET = (
    _mutant(
        "K1",
        "observed.py",
        "for waiter in self._waiters:",
        "for waiter in list(self._waiters)[:1]:",
        "test_allocating.py::test_every_stream_gets_every_change",
    ),
    _mutant(
        "K1",
        "service.py",
        "    async def lists(self)",
        '    @__import__("functools").cache\n    async def lists(self)',
        "test_plugin.py::test_a_change_after_a_restart_reaches_the_current_stream",
    ),
    _mutant(
        "K2",
        "plugin.py",
        "lambda: self._is_replaced(kubelet) or (accompanied and not self._company.peers),",
        "lambda: accompanied and not self._company.peers,",
        "test_plugin.py::test_a_new_kubelet_gets_the_list_at_once",
    ),
    _mutant(
        "K2",
        "plugin.py",
        "last, self._failures = kubelet, 0",
        "last = kubelet",
        "test_plugin_refused.py::"
        "test_a_new_socket_is_tried_again_at_once_however_long_the_last_one_was_dead",
    ),
    _mutant(
        "K3",
        "plugin.py",
        "            self._contest = Contest()  # that the last",
        "            pass  # that the last",
        "test_plugin_restarts.py::test_kubelets_that_came_and_went_make_no_later_wait_longer",
    ),
    *(
        _mutant(
            case,
            "plugin.py",
            "            return streams.value.ended > 0 or self._is_replaced(kubelet)",
            "            return self._is_replaced(kubelet)",
            test,
        )
        for case, test in (
            ("K3", "test_plugin.py::test_a_broken_stream_is_answered_by_a_new_socket"),
            (
                "K10",
                "test_plugin.py::test_the_end_of_another_plugin_does_not_take_the_devices_along",
            ),
        )
    ),
    _mutant(
        "K10",
        "kubelet/company.py",
        "        return not self._seen <= self._company.instances",
        "        return False",
        "test_peering.py::test_the_end_of_a_later_instance_does_not_take_the_devices_along",
    ),
    _mutant(
        "K10",
        "kubelet/company.py",
        "        return self._left_at >= moment",
        "        return False",
        "test_peering.py::test_an_instance_that_leaves_amid_a_registration_costs_no_long_wait",
    ),
    _mutant(
        "K4",
        "kubelet/folder.py",
        "ctime_ns=status.st_ctime_ns",
        "ctime_ns=0",
        "kubelet/test_folder.py::test_a_socket_with_the_same_inode_number_is_another_one",
    ),
    _mutant(
        "K5",
        "kubelet/folder.py",
        "ctime_ns=status.st_ctime_ns",
        'ctime_ns=__import__("time").time_ns()',
        "test_plugin.py::test_events_that_change_nothing_do_not_restart",
    ),
    _mutant(
        "K5",
        "observed.py",
        "        if value == self._value:\n            return\n",
        "",
        "kubelet/test_folder.py::test_an_unchanged_socket_is_no_news",
    ),
    _mutant(
        "K6",
        "plugin.py",
        "        except (KubeletError, OSError) as error:",
        "        except RegistrationError:\n            raise\n"
        "        except (KubeletError, OSError) as error:",
        "test_plugin.py::test_a_resource_that_is_refused_does_not_touch_the_others",
    ),
    _mutant(
        "K6",
        "kubelet/turns.py",
        "call_later(self._patience_seconds, leave)",
        "call_later(self._patience_seconds, int)",
        "kubelet/test_turns.py::test_one_that_hangs_does_not_keep_the_others_waiting",
    ),
    _mutant(
        "K6",
        "health/prober.py",
        "        except Exception as error:",
        "        except KeyboardInterrupt as error:",
        "health/test_prober.py::test_a_mistake_of_ours_in_one_probe_ends_no_other_one",
    ),
    _mutant(
        "K7",
        "plugin.py",
        "            await until(lambda: socket.value is not None, socket)",
        '            raise KubeletError("no kubelet")',
        "test_plugin.py::test_a_kubelet_that_comes_late_is_waited_for",
    ),
    _mutant(
        "K8",
        "kubelet/sockets.py",
        'f"{PREFIX}{digest_of(resource)}-',
        'f"{PREFIX}{resource}-',
        "kubelet/test_sockets.py::test_names_are_short_and_never_repeat",
        "test_plugin.py::test_a_long_resource_name_has_a_short_socket",
    ),
    _mutant(
        "K9",
        "kubelet/sockets.py",
        "return old and stat.S_ISSOCK(status.st_mode) and refuses(path)",
        "return False",
        "kubelet/test_sockets.py::test_only_old_dead_sockets_of_ours_are_removed",
        "test_supervisor.py::test_sockets_of_crashed_runs_are_removed_at_the_start",
    ),
    _mutant(
        "K11",
        "devices/offers.py",
        "    if total <= limit:",
        "    if limit:",
        "devices/test_offers.py::test_a_list_never_passes_the_limit_and_those_on_offer_stay",
        "test_supervisor.py::test_a_list_that_no_kubelet_takes_is_cut_before_it_is_sent",
    ),
    _mutant(
        "K11",
        "devices/offers.py",
        "        if size <= room:",
        "        if size <= room + 1_000_000:",
        "devices/test_offers.py::test_the_limit_is_met_to_the_byte_with_real_messages",
    ),
    _mutant(
        "K12",
        "kubelet/registration.py",
        "            await call(request, timeout=timeout_seconds)",
        '            grpc.insecure_channel(f"unix:{folder / KUBELET_SOCKET}").unary_unary('
        '"/v1beta1.Registration/Register")(request, timeout=timeout_seconds)',
        "test_daemon.py::test_the_call_back_of_the_kubelet_is_answered_during_register",
    ),
)

_CASES = "config/test_cases.py::test_a_bad_config_gives_exactly_this_output"

CONFIG = (
    _mutant(
        "C1",
        "config/messages.py",
        '    "additionalProperties": _unknown,',
        '    "additionalProperties": lambda _: iter(()),',
        _CASES,
    ),
    _mutant(
        "C1",
        "config/messages.py",
        "    if not misspelt and key not in",
        "    if key not in",
        "config/test_check.py::test_a_misspelt_key_does_not_also_count_as_missing",
    ),
    _mutant(
        "C2",
        "config/scalars.py",
        "    return source if reading(source) is None else Unclear(source)",
        "    return source",
        "config/test_scalars.py::test_what_some_yaml_reads_otherwise_is_unclear",
        _CASES,
    ),
    _mutant(
        "C3",
        "config/injecting.py",
        "    return set(text) <= set(_PERMISSIONS) and len(set(text)) == len(text)",
        "    return True",
        "config/test_check.py::test_permissions_are_r_w_and_m_each_at_most_once",
        _CASES,
    ),
    _mutant(
        "C4",
        "config/across.py",
        "    yield from _equal_names(placed)\n",
        "",
        "config/test_check.py::test_an_equal_name_is_told_with_both_places",
        _CASES,
    ),
    _mutant(
        "C5",
        "glob.py",
        '    while (at := pattern.find("[", at)) != -1:',
        "    while False:",
        "test_glob.py::test_a_broken_pattern_says_what_is_wrong",
        _CASES,
    ),
    _mutant(
        "C6",
        "cli/environment.py",
        'PREFIX = "GENERICDP_"',
        'PREFIX = ""',
        "cli/test_options.py::test_variables_without_the_prefix_change_nothing",
        "cli/test_validate.py::test_only_variables_with_the_prefix_change_anything",
    ),
    _mutant(
        "C7",
        "planning.py",
        "    changed = {name for name in both if wanted[name] != running[name]}",
        "    changed = both",
        "cli/test_comparing.py::test_only_what_is_different_is_a_change",
        "test_reloading.py::test_a_swapped_config_map_is_served_and_what_is_equal_is_left_alone",
    ),
    _mutant(
        "C7",
        "reloading/reloader.py",
        "            contents=True,",
        "            contents=False,",
        "reloading/test_reloader.py::test_every_way_to_change_a_config_is_noticed_twice",
    ),
    _mutant(
        "C8",
        "reloading/reloader.py",
        "            self._asked = True",
        "            pass",
        "reloading/test_reloader.py::test_a_hangup_reads_a_config_that_shows_no_change",
    ),
    _mutant(
        "C8",
        "daemon.py",
        "        hangup=hangup,",
        "        hangup=asyncio.Event(),",
        "test_reloading.py::test_a_hangup_reloads_and_a_bad_config_changes_nothing",
    ),
    _mutant(
        "C9",
        "status/looking.py",
        "        return tuple(lacking)",
        "        return ()",
        "status/test_readiness.py::test_while_nothing_is_registered_it_is_not_ready_and_says_why",
    ),
    _mutant(
        "C10",
        "cli/validate.py",
        "    return 2 if any(config.problems for config in configs) else 0",
        "    return 0",
        "cli/test_validate.py::test_a_bad_config_exits_2_with_every_problem",
    ),
    _mutant(
        "C10",
        "reloading/reloader.py",
        "                    self._tell_refused(loaded)",
        "                    raise SystemExit(1)",
        "reloading/test_refusing.py::test_a_bad_config_at_start_waits_for_the_first_good_one",
        "test_daemon.py::test_a_config_it_cannot_use_keeps_it_waiting_for_the_first_good_one",
    ),
    _mutant(
        "C10",
        "reloading/deciding.py",
        "    problems = tuple(map(str, loaded.problems))",
        "    problems: tuple[str, ...] = ()",
        "reloading/test_deciding.py::test_one_problem_refuses_the_whole",
    ),
)
