"""How the vesper voice is made and measured: `python -m voicetrain.vesper`."""
