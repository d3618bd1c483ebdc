from genericdp.simulator.kubelet import Kubelet
from tests.simulator.bare_plugin import RESOURCE, BarePlugin


async def test_smoke(kubelet: Kubelet, plugin: BarePlugin) -> None:
    plugin.show("a", "b", unhealthy=["c"])
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == 3)
    assert kubelet.allocatable(RESOURCE) == 2
    await kubelet.wait_for(lambda: kubelet.node() == {RESOURCE: (3, 2)})
    await kubelet.crash()
    await plugin.stop()
    await kubelet.start()
    plugin = BarePlugin(kubelet.folder)
    await plugin.start()
    plugin.show("a", "b", unhealthy=["c"])
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.capacity(RESOURCE) == 3)
    await plugin.stop()
