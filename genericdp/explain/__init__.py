"""Why a device is or is not offered, and what there is to offer. The daemon imports none of it."""
