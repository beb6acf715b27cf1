"""The making and measuring of the vesper voice: `python -m voicetrain.vesper`."""
