"""TileGP, the model of one leaf: an additive Gaussian process on tile-coding features."""
