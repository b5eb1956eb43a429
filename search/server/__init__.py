"""Servers that cannot leak: command line, supervisor, guardian, readiness, read-back, classification."""

from search.server.argument_check import check_arguments
from search.server.argument_report import ArgumentReport
from search.server.classify import classify, classify_stall
from search.server.command import LAUNCH_TAG, ServerCommand, server_command
from search.server.host import HostFacts, installed_release, probe_host
from search.server.http import Answer, ask_first_token, read_server_info
from search.server.lease import GpuLease, LeaseTerms, free_stale_locks, lease_gpus, wait_for_free_memory
from search.server.masking import mask_text, mask_tree
from search.server.nvml import GpuFacts, GpuUser, gpu_memory_used, gpu_users
from search.server.ports import PortBlock, fresh_ports, port_is_free
from search.server.readiness import BootLimits, NotReady, Unready, wait_ready
from search.server.reaper import Relic, find_orphans, find_relics, reap_orphans, stop_relics
from search.server.stacks import dump_stacks, find_py_spy
from search.server.supervisor import Patience, Progress, State, Supervisor
from search.server.system import Os, RealOs, tagged_processes

__all__ = [
    "LAUNCH_TAG",
    "Answer",
    "ArgumentReport",
    "BootLimits",
    "GpuFacts",
    "GpuLease",
    "GpuUser",
    "HostFacts",
    "LeaseTerms",
    "NotReady",
    "Os",
    "Patience",
    "PortBlock",
    "Progress",
    "RealOs",
    "Relic",
    "ServerCommand",
    "State",
    "Supervisor",
    "Unready",
    "ask_first_token",
    "check_arguments",
    "classify",
    "classify_stall",
    "dump_stacks",
    "find_orphans",
    "find_py_spy",
    "find_relics",
    "free_stale_locks",
    "fresh_ports",
    "gpu_memory_used",
    "gpu_users",
    "installed_release",
    "lease_gpus",
    "mask_text",
    "mask_tree",
    "port_is_free",
    "probe_host",
    "read_server_info",
    "reap_orphans",
    "server_command",
    "stop_relics",
    "tagged_processes",
    "wait_for_free_memory",
    "wait_ready",
]
