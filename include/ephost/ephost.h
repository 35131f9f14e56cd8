/* The whole plugin ABI. A plugin's source that exports the two entry functions also includes ephost/plugin.h;
   the names of options are in ephost/config_keys.h. */
#ifndef EPHOST_EPHOST_H_
#define EPHOST_EPHOST_H_

#include "ephost/types.h"
#include "ephost/allocator.h"
#include "ephost/environment.h"
#include "ephost/editor.h"
#include "ephost/compile.h"
#include "ephost/interop.h"
#include "ephost/custom_op.h"
#include "ephost/device.h"
#include "ephost/kernel.h"
#include "ephost/ep.h"
#include "ephost/api.h"

#endif
