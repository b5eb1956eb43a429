"""GPUs, the links between them and shared memory, as NVML and the system tell."""

from types import SimpleNamespace

from test_server_environment import LinkedNvml
from test_server_host import FakeNvml

from search.host.hardware import GpuLink, HostHardware, probe_hardware


def shm(path):
    return SimpleNamespace(f_frsize=4096, f_blocks=2**20, f_bavail=2**18)


def no_shm(path):
    raise OSError("no such folder")


def test_host_is_described_once():
    found = probe_hardware(LinkedNvml(nvlink=False, read=False), env={}, statvfs=shm)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-0", "GPU-1"]
    assert found.links == (GpuLink("GPU-0", "GPU-1", nvlink=False, path="the host bridge", peer_access=False),)
    assert (found.driver, found.driver_cuda) == ("580.65.06", "13.1")
    assert (found.shared_memory, found.shared_memory_free) == (4 * 2**30, 2**30)
    assert found.kinds == {"NVIDIA RTX PRO 6000": 2}


def test_links_of_hidden_gpus_are_left_out():
    found = probe_hardware(LinkedNvml(nvlink=True), env={"CUDA_VISIBLE_DEVICES": "0"}, statvfs=shm)
    assert (len(found.gpus), found.links) == (1, ())


def test_links_among_chosen_gpus():
    found = probe_hardware(LinkedNvml(nvlink=True), env={}, statvfs=shm)
    assert [str(link) for link in found.between(("GPU-0", "GPU-1"))] == ["NVLink"]
    assert found.between(("GPU-0",)) == ()


def test_pair_that_nvml_cannot_tell_of_is_left_out():
    class Silent(LinkedNvml):
        def nvmlDeviceGetP2PStatus(self, one, other, index):  # noqa: N802
            raise self.NVMLError("Not Supported")

    assert probe_hardware(Silent(nvlink=True), env={}, statvfs=shm).links == ()


def test_bare_machine_has_nothing_and_says_so():
    found = probe_hardware(FakeNvml(driver=False), env={}, statvfs=no_shm)
    assert found == HostHardware()
    assert set(found.facts().values()) == {""}


def test_facts_kept_with_a_study_are_kinds_and_not_counts():
    facts = probe_hardware(LinkedNvml(nvlink=False), env={}, statvfs=shm).facts()
    assert facts["capability"] == "12.0"
    assert facts["gpus"] == "NVIDIA RTX PRO 6000"
    assert facts["links"] == "PCIe over the host bridge, with peer access"
    assert facts["shared_memory"] == "4.0 GiB"
