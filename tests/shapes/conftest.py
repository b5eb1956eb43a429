"""The plugin's package on the path of the tests, as SGLang finds it."""

import sys
from pathlib import Path

from search.server.shape_support import plugin_folder

if str(plugin_folder()) not in sys.path:
    sys.path.append(str(plugin_folder()))
sys.path.append(str(Path(__file__).parent))  # `sources`
