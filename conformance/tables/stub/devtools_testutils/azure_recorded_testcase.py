from . import get_credential as get_credential
