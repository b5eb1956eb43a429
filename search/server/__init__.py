"""Servers that cannot leak: command line, supervisor, guardian, readiness, read-back, classification."""

from search.server.classify import classify, classify_stall
from search.server.command import LAUNCH_TAG, ServerCommand, server_command
from search.server.host import HostFacts, installed_release, probe_host
from search.server.http import Answer, ask_first_token, read_server_info
from search.server.masking import mask_text, mask_tree
from search.server.nvml import GpuFacts, gpu_memory_used
from search.server.ports import PortBlock, fresh_ports, port_is_free
from search.server.readiness import BootLimits, NotReady, Unready, wait_ready
from search.server.supervisor import Patience, Progress, State, Supervisor
from search.server.system import Os, RealOs, tagged_processes

__all__ = [
    "LAUNCH_TAG",
    "Answer",
    "BootLimits",
    "GpuFacts",
    "HostFacts",
    "NotReady",
    "Os",
    "Patience",
    "PortBlock",
    "Progress",
    "RealOs",
    "ServerCommand",
    "State",
    "Supervisor",
    "Unready",
    "ask_first_token",
    "classify",
    "classify_stall",
    "fresh_ports",
    "gpu_memory_used",
    "installed_release",
    "mask_text",
    "mask_tree",
    "port_is_free",
    "probe_host",
    "read_server_info",
    "server_command",
    "tagged_processes",
    "wait_ready",
]
