"""Many machines: hosts, slow links, compressed gradients."""
