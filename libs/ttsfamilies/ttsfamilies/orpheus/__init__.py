"""Orpheus: a Llama that goes on from text with audio, seven ids of one vocabulary a frame."""
