"""Values of the chart as people write them, each with what they are for."""

from __future__ import annotations

from typing import Any

CONFIG: dict[str, Any] = {
    "apiVersion": "genericdp.io/v1alpha1",
    "kind": "DevicePluginConfig",
    "resources": [{"name": "example.com/fuse", "match": [{"path": "/dev/fuse"}]}],
}
TOOLS_CONFIG: dict[str, Any] = CONFIG | {
    "resources": [
        {
            "name": "example.com/fuse",
            "match": [{"path": "/dev/fuse"}],
            "health": [{"exec": {"command": ["/opt/tools/busybox", "true"]}}],
        }
    ]
}
ELSEWHERE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "example.com/kind", "operator": "DoesNotExist"}]}
            ]
        }
    }
}

VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "files": {"config": None, "configFiles": {"a.yaml": "# a comment\nx: 1\n", "b.yml": "y: 2"}},
    "existing": {"existingConfigMap": "mine", "existingPolicyConfigMap": "bounds"},
    "policy": {
        "policy": {
            "apiVersion": "genericdp.io/v1alpha1",
            "kind": "DevicePluginPolicy",
            "devices": {"paths": ["/dev/fuse"]},
        }
    },
    "privileged": {"privileged": True},
    "host-network": {"hostNetwork": True},
    "selinux": {"seLinuxOptions": {"type": "container_device_plugin_t"}},
    "stateless": {"stateDir": "", "podResources": False},
    "cdi": {"cdi": {"enabled": True}},
    "dra": {"dra": {"enabled": True}},
    "another-driver": {
        "dra": {
            "enabled": True,
            "driver": "usb.example.com",
            "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 6443}]}],
        },
        "cdi": {"enabled": True},
        "stateDir": "",
        "kubelet": {"rootDir": "/var/lib/k0s/kubelet"},
        "serviceAccount": {"name": "usb"},
    },
    "tools": {
        "config": TOOLS_CONFIG,
        "tools": [
            {
                "name": "busybox",
                "image": "busybox:stable-musl",
                "command": ["/bin/cp", "/bin/busybox", "/opt/tools/busybox"],
            }
        ],
        "extraVolumes": [{"name": "driver", "hostPath": {"path": "/opt/driver", "type": ""}}],
        "extraVolumeMounts": [{"name": "driver", "mountPath": "/opt/driver", "readOnly": True}],
        "extraEnv": [{"name": "GENERICDP_LOG_LEVEL", "value": "debug"}],
    },
    "groups": {
        "nodeSelector": {"example.com/site": "north"},
        "nodeGroups": {
            "cameras": {
                "nodeSelector": {"example.com/kind": "cameras"},
                "image": {"digest": f"sha256:{'1' * 64}"},
                "config": CONFIG,
                "privileged": True,
                "tolerations": [],
            },
            "others": {"affinity": ELSEWHERE, "existingConfigMap": "mine"},
        },
    },
    "monitoring": {
        "monitoring": {
            "podMonitor": {
                "enabled": True,
                "labels": {"release": "prometheus"},
                "metricRelabelings": [
                    {
                        "sourceLabels": ["__name__"],
                        "regex": "genericdp_.*_bucket",
                        "action": "drop",
                    }
                ],
            },
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True, "annotations": {"directory": "hardware"}},
        }
    },
    "overlapping": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "podLabels": {"app.kubernetes.io/version": "mine"},
        "podAnnotations": {"kubectl.kubernetes.io/default-container": "other"},
        "monitoring": {
            name: {"enabled": True, "labels": {"app.kubernetes.io/name": "mine", "team": "42"}}
            for name in ("podMonitor", "prometheusRule", "dashboard")
        },
    },
    "private": {
        "http": {"port": 9800, "status": False},
        "networkPolicy": {"from": []},
        "image": {"repository": "images/genericdp", "digest": f"sha256:{'0' * 64}"},
        "logFormat": "json",
        "logLevel": "debug",
        "kubelet": {"devicePluginsDir": "/var/lib/k0s/kubelet/device-plugins"},
        "serviceAccount": {"create": False, "name": "mine"},
        "fullnameOverride": "devices",
    },
}
