"""A notebook's kernel, as a forked program that has imported torch already.

At its end it does not take apart what it has imported, which would cost a second.
"""

import atexit
import os

from ipykernel import kernelapp

try:  # it ends when the process that waits for it has ended
    kernelapp.launch_new_instance(parent_handle=os.getppid())
finally:
    atexit._run_exitfuncs()  # what is otherwise done on the way out
    os._exit(0)
