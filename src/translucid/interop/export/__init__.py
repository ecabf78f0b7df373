"""Write our models in the formats of other tools."""
