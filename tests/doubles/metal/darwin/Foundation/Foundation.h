// SPDX-License-Identifier: Apache-2.0
// The part of Apple's Foundation that the Metal backend uses, declared by us from its
// documentation, for compiling it to Mach-O where Apple's frameworks do not exist.
#pragma once

#include <objc/NSObject.h>
#include <stdint.h>

#define NS_ENUM(type, name) \
  enum name : type;         \
  typedef enum name name;   \
  enum name : type

@class NSArray, NSError, NSString, NSURL;

@interface NSString : NSObject
+ (instancetype)stringWithUTF8String:(const char*)text;
- (const char*)UTF8String;
- (NSUInteger)length;
@end

// Literals (@"...") are objects of this class.
@interface NSConstantString : NSString
@end

@interface NSURL : NSObject
+ (NSURL*)fileURLWithPath:(NSString*)path;
@end

@interface NSError : NSObject
- (NSString*)localizedDescription;
@end

typedef struct {
  unsigned long state;
  id __unsafe_unretained* itemsPtr;
  unsigned long* mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;

@interface NSArray : NSObject
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained*)buffer
                                    count:(NSUInteger)count;
@end
