"""What other projects' formulas say of a training step's FLOPs, beside the operators of the model."""
