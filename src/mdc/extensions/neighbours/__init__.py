"""The methods of the paper's neighbours, on its encoder and decoder."""
