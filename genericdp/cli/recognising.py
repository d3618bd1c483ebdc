"""What ``genericdp init`` recognises: a row for each kind of hardware, special ones first.

A row is a resource as it will stand in the config. What an earlier row takes is not left for a
later one, as in any config. ``examples/configs`` says more of most of them.
"""

from __future__ import annotations

from genericdp.cli.recogniser import Recogniser
from genericdp.cli.recognising_cards import CARDS


def _shared(about: str, name: str, path: str) -> Recogniser:
    text = f"name: example.com/{name}\nmatch:\n  - path: {path}\nreplicas: 100"
    return Recogniser(f"{about}: any number of containers can use it at once.", text)


RECOGNISERS = (
    *CARDS,
    Recogniser(
        "Google Coral on USB, its firmware loaded.",
        """\
name: example.com/coral-usb
match:
  - usb: {vendor: "18d1", product: "9302"}""",
    ),
    Recogniser(
        "Google Coral on USB before its first use: once its firmware is loaded it is the other\n"
        "device, with another node. What to do with this one: coral-tpu.yaml among the examples.",
        """\
name: example.com/coral-usb-cold
match:
  - usb: {vendor: "1a6e", product: "089a"}
id: cold-$(usb.port)
forgetAfterSeconds: 0""",
    ),
    Recogniser(
        "Z-Wave sticks by ids that only they have.",
        """\
name: example.com/zwave
match:
  - udev: {subsystem: tty}
    hardware: {usb: {vendor: "0658", product: "0200"}}    # Aeotec Z-Stick
  - udev: {subsystem: tty}
    hardware: {usb: {vendor: "10c4", product: "8a2a", interface: "00"}}    # HUSBZB-1
inject:
  devices:
    - path: $(device.path)
      containerPath: /dev/zwave$(allocation.index)""",
    ),
    Recogniser(
        "Zigbee sticks: by ids that only they have, and by what makers call them.",
        """\
name: example.com/zigbee
match:
  - udev: {subsystem: tty}
    hardware: {usb: {vendor: "1cf1", product: "0030"}}    # ConBee II
  - udev: {subsystem: tty}
    hardware: {usb: {vendor: "0451", product: "16a8"}}    # TI CC2531
  - udev: {subsystem: tty}
    hardware: {usb: {vendor: "10c4", product: "8a2a", interface: "01"}}    # HUSBZB-1
  - udev:
      subsystem: tty
      properties: {ID_MODEL: ["*[Zz]igbee*", "*ZBDongle*", "*ConBee*", "*SkyConnect*", "*ZBT-*"]}
inject:
  devices:
    - path: $(device.path)
      containerPath: /dev/zigbee$(allocation.index)""",
    ),
    Recogniser(
        "Serial adapters on USB, each for one container, which finds it as /dev/serial0.\n"
        "The id is the port it is plugged into; to follow the stick instead: id: $(usb.serial)",
        """\
name: example.com/serial
match:
  - udev: {subsystem: tty, name: ["ttyUSB*", "ttyACM*"]}
inject:
  devices:
    - path: $(device.path)
      containerPath: /dev/serial$(allocation.index)
  env:
    SERIAL_DEVICES: /dev/serial$(allocation.index)""",
    ),
    Recogniser(
        "Serial ports of the board that have hardware behind them; one may be the console.",
        """\
name: example.com/serial-port
match:
  - udev: {subsystem: tty, name: "ttyS*", attributes: {type: "[!0]*"}}
  - udev: {subsystem: tty, name: ["ttyAMA*", "ttymxc*", "ttyTHS*"]}""",
        "The system's console and a login may be on it, and a Bluetooth chip.",
    ),
    Recogniser(
        "Cameras and other video devices, each for one container, which finds it as /dev/video0.",
        """\
name: example.com/video
match:
  - udev: {subsystem: video4linux, name: "video*", attributes: {index: "0"}}
inject:
  devices:
    - path: $(device.path)
      containerPath: /dev/video$(allocation.index)
    - {subsystem: media, optional: true}""",
    ),
    Recogniser(
        "Sound: each card with all of its streams.",
        """\
name: example.com/sound
match:
  - udev: {subsystem: sound, name: "controlC*"}
inject:
  devices:
    - {subsystem: sound, name: "*C[0-9]*"}
    - {path: /dev/snd/timer, optional: true}""",
    ),
    Recogniser(
        "Joysticks and game pads.",
        """\
name: example.com/joystick
match:
  - udev: {subsystem: input, name: "event*", properties: {ID_INPUT_JOYSTICK: "1"}}
inject:
  devices:
    - path: $(device.path)
    - {subsystem: input, name: "js*", optional: true}""",
    ),
    Recogniser(
        "Keyboards, mice, buttons and scanners that type.",
        """\
name: example.com/input
match:
  - udev: {subsystem: input, name: "event*"}
inject:
  devices:
    - {path: $(device.path), permissions: r}""",
        "Who has the keyboard of this machine reads its passwords: name the devices you mean.",
    ),
    Recogniser(
        "TPM through the kernel's resource manager, which keeps its users apart.",
        """\
name: example.com/tpm
match:
  - udev: {subsystem: tpmrm}
replicas: 10
inject:
  devices:
    - path: $(device.path)
      containerPath: /dev/tpmrm$(allocation.index)""",
    ),
    Recogniser(
        "GPIO chips: lines of one chip can be used by several containers.",
        """\
name: example.com/gpio
match:
  - udev: {subsystem: gpio, name: "gpiochip*"}
replicas: 10""",
        "A line may switch this machine's own power or regulators: name the chip you mean.",
    ),
    Recogniser(
        "I2C buses.",
        """\
name: example.com/i2c
match:
  - path: /dev/i2c-[0-9]*
replicas: 10""",
        "Clocks, power supplies and memory modules hang on some: name the bus you mean.",
    ),
    Recogniser(
        "SPI devices.",
        """\
name: example.com/spi
match:
  - path: /dev/spidev[0-9]*""",
    ),
    Recogniser(
        "NVMe namespaces as whole raw disks.",
        """\
name: example.com/nvme
match:
  - udev: {subsystem: block, devtype: disk, name: "nvme*"}
id: $(attribute.device/serial)-$(attribute.nsid:-1)""",
        "THE SYSTEM MAY LIVE ON ONE OF THEM, and a container can overwrite what it is given:"
        " name the disks you mean by their serial number, as nvme.yaml among the examples does.",
    ),
    _shared("FUSE", "fuse", "/dev/fuse"),
    _shared("TUN and TAP, for VPNs", "tun", "/dev/net/tun"),
    _shared("KVM, for virtual machines", "kvm", "/dev/kvm"),
    _shared("Networking of virtual machines in the kernel", "vhost-net", "/dev/vhost-net"),
    Recogniser(
        "Random numbers from hardware; containers may only read them.",
        """\
name: example.com/hwrng
match:
  - path: /dev/hwrng
replicas: 100
inject:
  devices:
    - {path: $(device.path), permissions: r}""",
    ),
)
