"""Things of which there are several kinds (sources of data, encoders, backbones, heads of probes), a class for each."""
