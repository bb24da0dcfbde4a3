// Every function the addon exports; typings/addon.d.ts says what each takes and does.
#pragma once

#include <napi.h>

namespace warpgraph {

// device.cc
void setDeviceErrorFactory(const Napi::CallbackInfo& info);
Napi::Value driverStatus(const Napi::CallbackInfo& info);
Napi::Value deviceProperties(const Napi::CallbackInfo& info);
void synchronize(const Napi::CallbackInfo& info);

// memory.cc
Napi::Value allocate(const Napi::CallbackInfo& info);
Napi::Value upload(const Napi::CallbackInfo& info);
void fill(const Napi::CallbackInfo& info);
void download(const Napi::CallbackInfo& info);
Napi::Value downloadAsync(const Napi::CallbackInfo& info);
void release(const Napi::CallbackInfo& info);
Napi::Value memory(const Napi::CallbackInfo& info);
void emptyCache(const Napi::CallbackInfo& info);

// structure.cc
void dealRows(const Napi::CallbackInfo& info);
Napi::Value createStructure(const Napi::CallbackInfo& info);
void releaseStructure(const Napi::CallbackInfo& info);

// capture.cc
void beginCapture(const Napi::CallbackInfo& info);
void abortCapture(const Napi::CallbackInfo& info);
Napi::Value endCapture(const Napi::CallbackInfo& info);
void replay(const Napi::CallbackInfo& info);
void releaseGraph(const Napi::CallbackInfo& info);
void copy(const Napi::CallbackInfo& info);

// measure.cc
Napi::Value measureLaunch(const Napi::CallbackInfo& info);
Napi::Value measureCopy(const Napi::CallbackInfo& info);

// One file per op.
void cast(const Napi::CallbackInfo& info);
void matmul(const Napi::CallbackInfo& info);
void segmentSoftmax(const Napi::CallbackInfo& info);
void gcnWeights(const Napi::CallbackInfo& info);
void gcnAggregate(const Napi::CallbackInfo& info);
void csrMax(const Napi::CallbackInfo& info);
void mlaAttention(const Napi::CallbackInfo& info);
void mlaDecode(const Napi::CallbackInfo& info);

}  // namespace warpgraph
