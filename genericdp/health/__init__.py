"""Whether devices work: probes, thresholds, and the commands that probes and hooks run."""
