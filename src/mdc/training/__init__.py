"""From a batch to a loss and its gradients, and the loop around it."""
